/** `node test/share_speed.mjs CASES`: milliseconds and bytes of shares in Node, of a JSON file of encoders and records. */

import { readFileSync } from "node:fs";
import * as privot from "../dist/privot.js";
import { ofShares } from "./speed.mjs";

console.log(JSON.stringify(await ofShares(privot, JSON.parse(readFileSync(process.argv[2], "utf-8")))));
