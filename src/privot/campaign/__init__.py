"""A campaign: a signed randomizer, a page that asks, and what its reports have told so far."""

from privot.campaign.campaign import CampaignFolder, create

__all__ = ["CampaignFolder", "create"]
