/** A range of time: relative (6h: the last six hours) or absolute (ms..ms). */
export interface Range {
  from: number
  to: number
  relative: boolean
}

const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }

/** How long a relative range is; null if it is none. */
export function rangeMillis(text: string): number | null {
  const m = /^(\d+)([smhdw])$/.exec(text)
  return m ? Number(m[1]) * units[m[2]!]! : null
}

export function parseRange(text: string, now: number, fallback = '1h'): Range {
  const absolute = /^(-?\d+)\.\.(-?\d+)$/.exec(text)
  if (absolute && Number(absolute[1]) < Number(absolute[2])) return { from: Number(absolute[1]), to: Number(absolute[2]), relative: false }
  const ms = rangeMillis(text) ?? rangeMillis(fallback)!
  return { from: now - ms, to: now, relative: true }
}

/** How often a range is read again. */
export function rangeCadence(r: Range): number {
  if (!r.relative) return 0
  const span = r.to - r.from
  return span <= 15 * 60_000 ? 2000 : span <= 6 * 3_600_000 ? 10_000 : 60_000
}

const nice = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000,
  14_400_000, 21_600_000, 43_200_000, 86_400_000,
]
/** The next length that people count in, ms. */
export const niceStep = (ms: number) => nice.find(s => s >= ms) ?? Math.ceil(ms / 86_400_000) * 86_400_000
