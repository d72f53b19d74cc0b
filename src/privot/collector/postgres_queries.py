"""What the store in PostgreSQL asks of its database: tables, and the statements of its transactions."""

TABLES = """
CREATE TABLE IF NOT EXISTS privot_campaigns (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint bytea UNIQUE NOT NULL,
    record_bytes integer NOT NULL
);
CREATE TABLE IF NOT EXISTS privot_reports (
    campaign integer NOT NULL REFERENCES privot_campaigns,
    id uuid NOT NULL,
    digest bigint NOT NULL,
    sealing integer,
    report bytea NOT NULL,
    PRIMARY KEY (campaign, id, digest)
);
CREATE INDEX IF NOT EXISTS privot_unsealed ON privot_reports (campaign) WHERE sealing IS NULL;
CREATE TABLE IF NOT EXISTS privot_sealings (
    campaign integer NOT NULL REFERENCES privot_campaigns,
    number integer NOT NULL,
    shards integer[],
    PRIMARY KEY (campaign, number)
);
"""
ARRIVING = """
CREATE TEMPORARY TABLE IF NOT EXISTS privot_arriving
    (place integer, id uuid, digest bigint, report bytea) ON COMMIT DELETE ROWS
"""
INSERT = """
WITH stored AS (
    INSERT INTO privot_reports (campaign, id, digest, report)
    SELECT %(campaign)s, id, digest, report FROM (
        SELECT DISTINCT ON (id, digest) id, digest, report FROM privot_arriving AS arriving
        WHERE NOT EXISTS (
            SELECT FROM privot_reports AS gone
            WHERE gone.campaign = %(campaign)s AND gone.id = arriving.id AND gone.digest = 0
        )
        ORDER BY id, digest, place
    ) AS firsts ORDER BY id, digest
    ON CONFLICT DO NOTHING RETURNING id, digest
)
SELECT place FROM (
    SELECT id, digest, min(place) AS place FROM privot_arriving GROUP BY id, digest
) AS firsts JOIN stored USING (id, digest)
"""
GONE = """
SELECT place FROM privot_arriving JOIN privot_reports AS held USING (id)
WHERE held.campaign = %(campaign)s AND held.digest = 0
"""
KNOWN = "SELECT DISTINCT id FROM privot_reports WHERE campaign = %s AND id = ANY(%s)"
# Of several reports of one id, the last sealing says whether a file of the release may hold one.
DELETE = """
WITH gone AS (
    DELETE FROM privot_reports
    WHERE campaign = %(campaign)s AND digest <> 0 AND (%(all)s OR id = ANY(%(ids)s::uuid[]))
    RETURNING id, sealing
), buried AS (
    INSERT INTO privot_reports (campaign, id, digest, sealing, report)
    SELECT %(campaign)s, id, 0, max(coalesce(sealing, -1)), '' FROM gone GROUP BY id
)
SELECT count(*) FROM gone
"""
TO_ERASE = "SELECT id FROM privot_reports WHERE campaign = %s AND digest = 0 AND sealing >= 0"
