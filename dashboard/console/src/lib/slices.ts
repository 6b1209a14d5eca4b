import { useEffect, useMemo, useState } from 'preact/hooks'

/** How long the page may be held up at a time: less than a frame. */
const sliceMillis = 8

export interface Sliced<T> {
  made: T[]
  done: boolean
}

/** Makes things of a source until the time is over. When the source throws, those of the other are all there is. */
export function more<T>(work: Sliced<T>, source: { from: Iterator<T> }, otherwise: () => Iterator<T>, now: () => number = () => performance.now()) {
  const end = now() + sliceMillis
  while (!work.done && now() < end) {
    try {
      const next = source.from.next()
      if (next.done) work.done = true
      else work.made.push(next.value)
    } catch {
      work.made.length = 0
      source.from = otherwise()
    }
  }
}

/** What a source gives: as much as one slice of time makes at once, the rest slice by slice, between which the page can do other things. */
export function useSliced<T>(from: () => Iterator<T>, otherwise: () => Iterator<T>, inputs: readonly unknown[]): Sliced<T> {
  const [, redraw] = useState(0)
  const work = useMemo(() => {
    const source = { from: from() }
    const work: Sliced<T> = { made: [], done: false }
    const go = () => more(work, source, otherwise)
    go()
    return { work, go }
  }, inputs)
  useEffect(() => {
    if (work.work.done) return
    let timer = setTimeout(function slice() {
      work.go()
      redraw(n => n + 1)
      if (!work.work.done) timer = setTimeout(slice)
    })
    return () => clearTimeout(timer)
  }, [work])
  return work.work
}
