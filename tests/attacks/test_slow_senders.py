"""Senders who say much and send nothing take no room from others."""

import asyncio

from campaign_reports import BATCH, CAMPAIGN, made
from collector.test_app import REPORTS
from privot.collector.app import Collector, ServedCampaign
from privot.collector.arrivals import GroupCommit, MemoryLimit
from privot.collector.folder import FolderStore
from privot.device import write_batch


def scope(length):
    named = BATCH | {"content-length": str(length)}
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    path = {"path": REPORTS, "raw_path": REPORTS.encode(), "query_string": b""}
    return {"type": "http", "method": "POST", "headers": headers, "http_version": "1.1", **path}


def test_silent_senders_of_large_bodies_shut_nobody_out(tmp_path):
    writer = GroupCommit(FolderStore(tmp_path / "store", CAMPAIGN.format))
    most = CAMPAIGN.most_bytes(as_json=False)
    collector = Collector([ServedCampaign(CAMPAIGN, writer)], memory=MemoryLimit(3 * most))
    body, answers = write_batch(made(5)), []

    async def silent():
        await asyncio.sleep(60)

    async def whole():
        return {"type": "http.request", "body": body, "more_body": False}

    async def answer(message):
        answers.append(message)

    async def run():
        slow = [asyncio.create_task(collector.app(scope(most), silent, answer)) for _ in range(50)]
        await asyncio.sleep(0.05)
        await collector.app(scope(len(body)), whole, answer)
        for each in slow:
            each.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        await asyncio.to_thread(writer.close)

    asyncio.run(run())
    assert answers[0]["status"] == 200
    assert writer.store.count == 5
    writer.store.close()
