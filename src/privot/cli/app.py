"""Typer application with all commands of `privot`, and the function that runs it.

A command imports the modules that it needs when it runs. So `privot --help` is fast, and commands that
do not need PyTorch work without it.
"""

from typing import Any

import typer

from privot import __version__
from privot.cli import account, campaign, central, evaluation, models, randomizer, schema, waves
from privot.cli.console import complain, with_settings

# The parser's class of usage errors, which has no public name.
_UsageError: Any = typer.BadParameter.__bases__[0]

# Settings class whose fields become options, and the fields that are options of `privot fit`.
_FIT = "privot.local.settings:FitSettings"
_FIT_OPTIONS = ("estimator", "loss", "steps", "batch_size", "learning_rate", "seed", "minutes")
_SUM_OPTIONS = ("components", "residual_low_pass", "classes")  # options of `privot central fit`

app = typer.Typer(
    name="privot",
    help="Learn generative models and synthetic data from records that stay private.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
schema_app = typer.Typer(help="Work with a schema: what a record may be.", no_args_is_help=True)
schema_app.command("check")(schema.check)
schema_app.command("new")(schema.new)
app.add_typer(schema_app, name="schema")
account_app = typer.Typer(
    help="Privacy arithmetic: noise for an epsilon, epsilon for a noise; and what was spent.",
    no_args_is_help=True,
)
account_app.command("noise")(account.noise)
account_app.command("shuffle")(account.shuffle)
account_app.command("slices")(account.slices)
account_app.command("spent")(account.spent)
central_app = typer.Typer(
    help="A trusted curator learns through noisy sums or slices.", no_args_is_help=True
)
_sums = with_settings(central.SUM_SETTINGS, *_SUM_OPTIONS, panel=central.SUMS_PANEL)
central_app.command("fit", cls=_sums)(central.fit)
central_app.command("adapt")(central.adapt)
integral_app = typer.Typer(
    help="Publish draws that protect data sets as a whole; a curator is trusted.",
    no_args_is_help=True,
)
integral_app.command("fit")(central.fit_integral)
integral_app.command("sample")(central.sample_integral)
campaign_app = typer.Typer(help="Survey many people by their browsers.", no_args_is_help=True)
campaign_app.command("new")(campaign.new)
campaign_app.command("up")(campaign.up)
campaign_app.command("status")(campaign.status)
campaign_app.command("delete")(campaign.delete)
waves_app = typer.Typer(help="Survey the same people again and again.", no_args_is_help=True)
waves_app.command("new")(waves.new)
waves_app.command("show")(waves.show)
waves_app.command("report")(waves.report)
app.command("demo", cls=with_settings(_FIT, "steps", "seed"))(models.demo)
app.command("plan")(evaluation.plan)
app.command("calibrate")(randomizer.calibrate)
app.command("privatize")(randomizer.privatize)
app.command("collect")(models.collect)
app.command("serve")(campaign.serve)
app.command("aggregate")(campaign.aggregate)
app.command("fit", cls=with_settings(_FIT, *_FIT_OPTIONS))(models.fit)
app.command("sample")(models.sample)
app.command("check")(evaluation.check)
app.command("evaluate")(evaluation.evaluate)
app.add_typer(account_app, name="account")
app.add_typer(central_app, name="central")
app.add_typer(integral_app, name="integral")
app.add_typer(campaign_app, name="campaign")
app.add_typer(waves_app, name="waves")
app.command("audit")(randomizer.audit)
app.command("sign")(randomizer.sign)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"privot {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Learn generative models and synthetic data from records that stay private.

    First steps: [bold]privot demo[/bold]
    """


def run() -> int:
    """Run the command, and return its exit code; usage errors are printed as one line.

    Raises:
        PrivotError: if the input cannot be used.
        KeyboardInterrupt: on Ctrl-C.
    """
    try:
        return int(app(prog_name="privot", standalone_mode=False) or 0)
    except _UsageError as error:
        if message := error.format_message().strip().removesuffix("."):  # empty after --help
            command = "privot" if error.ctx is None else error.ctx.command_path
            complain(f"{message}: see {command} --help")
        return 2
    except typer.Abort:
        raise KeyboardInterrupt from None
