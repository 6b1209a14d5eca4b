import { useEffect, useState } from 'preact/hooks'

/** A value that several parts of the page share. */
export interface Store<T> {
  get(): T
  set(next: T | ((now: T) => T)): void
  subscribe(changed: () => void): () => void
}

export function store<T>(value: T): Store<T> {
  const readers = new Set<() => void>()
  return {
    get: () => value,
    set(next) {
      const to = typeof next === 'function' ? (next as (now: T) => T)(value) : next
      if (Object.is(to, value)) return
      value = to
      for (const reader of [...readers]) reader()
    },
    subscribe(changed) {
      readers.add(changed)
      return () => readers.delete(changed)
    },
  }
}

/** The value of a store; the component is drawn again when it changes. */
export function useStore<T>(s: Store<T>): T {
  const [, redraw] = useState(0)
  const seen = s.get()
  useEffect(() => {
    const changed = () => redraw(n => n + 1)
    const stop = s.subscribe(changed)
    if (!Object.is(s.get(), seen)) changed() // between drawing and here
    return stop
  }, [s])
  return seen
}
