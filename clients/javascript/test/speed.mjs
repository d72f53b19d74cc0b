/** Microseconds of one report: of each named randomizer and record, the least of several batches. */

const BATCHES = 10;
const REPORTS = 200;

export async function microseconds({ Device }, cases) {
  const found = {};
  for (const [name, { randomizer, record }] of Object.entries(cases)) {
    const device = await Device.load(randomizer);
    const took = Array.from({ length: BATCHES }, () => {
      const start = performance.now();
      for (let report = 0; report < REPORTS; report++) device.report(record).toBytes();
      return (1000 * (performance.now() - start)) / REPORTS;
    });
    found[name] = { least: Math.min(...took), first: took[0] };
  }
  return found;
}
