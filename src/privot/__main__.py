"""`python -m privot …`, and so `torchrun … -m privot fit …`."""

from privot.cli import main

if __name__ == "__main__":
    main()
