import { keep, recall } from './mount'
import { store, useStore, type Store } from './store'
import type { Zone } from './format'

export type Theme = 'system' | 'light' | 'dark'
export type Density = 'compact' | 'comfortable'
export const cadences = ['live', '10', '60', 'paused'] as const
export type Cadence = (typeof cadences)[number]

function pref<T>(name: string, fallback: T): Store<T> {
  const s = store(recall(name, fallback))
  s.subscribe(() => keep(name, s.get()))
  return s
}

export const theme = pref<Theme>('theme', 'system')
export const zone = pref<Zone>('zone', 'local')
export const density = pref<Density>('density', 'compact')
export const shortcuts = pref<boolean>('shortcuts', true)
export const cadence = pref<Cadence>('cadence', 'live')

export const useZone = () => useStore(zone)

export const rowHeight = () => (density.get() === 'compact' ? 28 : 36)

/** Puts theme and density on the root, where the style sheets look. */
export function applyPrefs() {
  const apply = () => {
    const root = document.documentElement
    if (theme.get() === 'system') delete root.dataset['theme']
    else root.dataset['theme'] = theme.get()
    root.dataset['density'] = density.get()
  }
  theme.subscribe(apply)
  density.subscribe(apply)
  apply()
}
