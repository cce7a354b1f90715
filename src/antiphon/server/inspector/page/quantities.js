// Numbers, times and sizes as people read them. What is not known is a dash.

const NOTHING = "–";
const known = (value) => value !== null && value !== undefined;

export const count = (value) => (known(value) ? value.toLocaleString("en-US") : NOTHING);

export function seconds(value) {
  if (!known(value)) return NOTHING;
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 10) return `${value.toFixed(2)} s`;
  if (value < 100) return `${value.toFixed(1)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

export const rate = (value) => (known(value) ? (value < 100 ? value.toFixed(1) : count(Math.round(value))) : NOTHING);

export const percent = (share) => `${Math.round(share * 100)} %`;

const KILO = 1024;

/** In powers of 1024, as the settings count. */
export function bytes(value) {
  if (!known(value)) return NOTHING;
  if (value < KILO) return `${value} B`;
  const [size, unit] = value < KILO * KILO ? [value / KILO, "kB"] : [value / KILO / KILO, "MB"];
  return `${size.toFixed(size < 10 ? 1 : 0)} ${unit}`;
}

export const clock = (unix) => new Date(unix * 1000).toLocaleTimeString("en-GB");

/** In a list, where rows of several days follow one another. The year too, unless it is this one. */
export function dayAndTime(unix) {
  const date = new Date(unix * 1000);
  const isThisYear = date.getFullYear() === new Date().getFullYear();
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: isThisYear ? undefined : "numeric" });
  return `${day}, ${clock(unix)}`;
}

/** The day too, unless it is today. */
export function moment(unix) {
  const date = new Date(unix * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return today ? clock(unix) : `${date.toLocaleDateString("en-CA")} ${clock(unix)}`;
}

/** "1 message", "2 messages". */
export const several = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** An engine's address, short. */
export const host = (url) => (url ? url.replace(/^https?:\/\//, "").replace(/\/$/, "") : NOTHING);
