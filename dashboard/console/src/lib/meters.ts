import { useMemo } from 'preact/hooks'
import { rate } from './format'
import { Meter } from './rate'

/** The meters of all counters, so that a screen that is opened again has its rates at once. */
const meters = new Map<string, Meter>()
const mostMeters = 50_000

/** Rates of a counter of each of many things, from what two reads differ in. of names the counter, with the namespace. */
export function useMeters<T>(
  of: string,
  rows: readonly T[],
  at: number | undefined,
  name: (row: T) => string,
  total: (row: T) => number,
): (name: string) => number | null {
  useMemo(() => {
    if (at === undefined) return
    if (meters.size > mostMeters) meters.clear()
    for (const row of rows) {
      const key = `${of}\n${name(row)}`
      let m = meters.get(key)
      if (!m) meters.set(key, (m = new Meter(30_000)))
      m.add(at, total(row))
    }
  }, [of, rows, at])
  return n => meters.get(`${of}\n${n}`)?.now() ?? null
}

export const rateOf = (v: number | null) => (v === null ? '–' : rate(v))
