"""Campaigns: a signed rule for devices, a survey page for browsers, and a page of results so far.

| file | access |
|---|---|
| `randomizer.json` or `encoder.json`, `.sig` | public: how devices make reports or shares; signature |
| `signing.pem` | private to the campaign's owner: whoever has it can sign another rule |
| `analyst.key` | private to the analyst of a shuffled campaign: it opens batches of sealed reports |
| `compose.yaml`, `containers/` | public: the servers as containers, and their configurations |
| `secrets/` | private: passwords; `verify.key` of both servers: who knows it can send wrong shares |
| `columns.json` | public: distributions of a model of two servers' sums, for the dashboard |
| `web/` | public, on any web server: the page, the client, the same rule, and `status.json` |

`folder` creates and reads the folder and serves its page on this machine, and `status` writes the data
of the dashboard.

**Privacy review.** The page makes the report, or both shares, in the browser, shows them, and sends
exactly what it showed. It pins the rule's fingerprint and the public key, so that nobody between browser
and owner can change the rule. The page's server also serves the code that draws: respondents have to
trust this server, or somebody who reads the code. By the page's `Content-Security-Policy`, the browser
sends requests only to the page's server and to the hosts that the campaign names (a collector, or two
servers). It refuses all ordinary form submissions, so that raw answers never become part of an address,
not even if a script fails to load.

For a shuffled campaign (`privot.collector.analyst`) the page also pins the analyst's public key, and
seals exactly what it showed. The page's server could pin another key, so the shuffler should not run it.

For two servers (`privot.aggregated`) adjacency, Δ and what each party sees are those of
`privot.aggregated.server`. The page sends the two shares to two different origins, over two connections.
The page's server sees neither share, but could serve code that sends both to one place: neither of the
two servers should run it. From the first attempt to send them until both servers have acknowledged them,
both shares are in the browser's storage, and remain on its disk for some time. Whoever reads both, as
every page of the same origin can, reads the record.

The status is computed from reports alone, or from numbers of reports and a published model
(post-processing), so the campaign may publish it.
"""

from privot.campaign.folder import CampaignFolder, create, page_server
from privot.campaign.status import expected_error, write_share_status, write_status

__all__ = [
    "CampaignFolder",
    "create",
    "expected_error",
    "page_server",
    "write_share_status",
    "write_status",
]
