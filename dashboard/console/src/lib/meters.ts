import { useMemo } from 'preact/hooks'
import { rate } from './format'
import { Meter } from './rate'

/** Rates of a counter of each of many things, from what two reads differ in. */
export function useMeters<T>(rows: readonly T[], at: number | undefined, name: (row: T) => string, total: (row: T) => number): (name: string) => number | null {
  const meters = useMemo(() => new Map<string, Meter>(), [])
  useMemo(() => {
    if (at === undefined) return
    for (const row of rows) {
      let m = meters.get(name(row))
      if (!m) meters.set(name(row), (m = new Meter(30_000)))
      m.add(at, total(row))
    }
  }, [rows, at])
  return n => meters.get(n)?.now() ?? null
}

export const rateOf = (v: number | null) => (v === null ? '–' : rate(v))
