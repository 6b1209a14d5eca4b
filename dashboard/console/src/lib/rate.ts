/** A counter as it was read at a time. */
export interface Sample {
  at: number // ms
  total: number
}

/** Rates between samples of a counter, per second. A counter that falls was restarted: a gap, null, not a negative rate. */
export function rates(samples: readonly Sample[]): { at: number; value: number | null }[] {
  const found: { at: number; value: number | null }[] = []
  for (let i = 1; i < samples.length; i++) {
    const [a, b] = [samples[i - 1]!, samples[i]!]
    if (b.at <= a.at) continue
    found.push({ at: b.at, value: b.total < a.total ? null : (1000 * (b.total - a.total)) / (b.at - a.at) })
  }
  return found
}

/** The minimum time between the reads of a rate. */
const leastMillis = 900

/** Remembers samples of a counter over a time, and says what they amount to. */
export class Meter {
  samples: Sample[] = []
  constructor(readonly keepMillis: number) {}

  add(at: number, total: number) {
    const last = this.samples[this.samples.length - 1]
    if (last && at <= last.at) return
    this.samples.push({ at, total })
    while (this.samples.length > 2 && this.samples[0]!.at < at - this.keepMillis) this.samples.shift()
  }

  /** The rate up to the last sample, over a second or more; null before there are two such samples, and after a restart. */
  now(): number | null {
    const last = this.samples[this.samples.length - 1]
    const before = last && this.samples.findLastIndex(s => s.at <= last.at - leastMillis)
    if (!last || before === undefined || before < 0) return null
    const span = this.samples.slice(before)
    const first = span[0]!
    return rates(span).some(r => r.value === null) ? null : (1000 * (last.total - first.total)) / (last.at - first.at)
  }
}
