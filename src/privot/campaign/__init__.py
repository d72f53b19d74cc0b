"""Campaigns: a signed randomizer, a survey page for browsers, and a page of results so far."""

from privot.campaign.campaign import CampaignFolder, create

__all__ = ["CampaignFolder", "create"]
