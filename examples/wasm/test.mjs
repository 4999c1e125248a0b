// Prints the scores of a handwritten digit, and the number of digits that are right: node test.mjs MODULE
import { readFileSync } from 'node:fs';
import { digits } from './digits.mjs';

const scores = await digits(readFileSync(process.argv[2]));
const records = readFileSync(new URL('../data/src/held_out.bin', import.meta.url));
const count = records.length / 65;
let right = 0;
for (let i = 0; i < count; i++) {
  const record = records.subarray(65 * i, 65 * (i + 1));
  const found = scores(Array.from(record.subarray(0, 64), (pixel) => pixel / 16));
  if (i === 0) found.forEach((score) => console.log(score.toFixed(4)));
  if (found.indexOf(Math.max(...found)) === record[64]) right++;
}
console.log(`${right} of ${count} digits are right`);
