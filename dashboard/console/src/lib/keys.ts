import { useEffect, useRef } from 'preact/hooks'
import { shortcuts } from './prefs'

type Handler = (e: KeyboardEvent) => void
export type KeyMap = Record<string, Handler>

const layers: { current: KeyMap }[] = []

/** How a key is called in a KeyMap: "j", "?", "Enter", "mod+k" with Ctrl or Cmd. */
export function keyName(e: KeyboardEvent): string {
  return (e.ctrlKey || e.metaKey ? 'mod+' : '') + (e.altKey ? 'alt+' : '') + e.key
}

export function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  if (target.dataset['editor'] !== undefined || target.closest('[data-editor]')) return true
  return (
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement ||
    target.isContentEditable ||
    (target instanceof HTMLInputElement && !['checkbox', 'radio', 'button'].includes(target.type))
  )
}

let started: number | null = null
let prefix = ''

function press(e: KeyboardEvent) {
  if (e.defaultPrevented) return
  const name = keyName(e)
  const single = !name.startsWith('mod+') && e.key.length === 1
  if (single && (typing(e.target) || !shortcuts.get())) return
  if (e.key === 'Escape' && typing(e.target)) {
    ;(e.target as HTMLElement).blur()
    return
  }
  if (!name.startsWith('mod+') && typing(e.target)) return
  if (document.querySelector('dialog[open]') && !name.startsWith('mod+Enter')) return
  const sequence = prefix && Date.now() - (started ?? 0) < 1500 ? prefix + ' ' + name : name
  prefix = ''
  for (const layer of [...layers].reverse()) {
    const handler = layer.current[sequence] ?? layer.current[name]
    if (handler) {
      e.preventDefault()
      handler(e)
      return
    }
  }
  if (name === 'g') {
    prefix = 'g'
    started = Date.now()
  }
}

export function startKeys() {
  document.addEventListener('keydown', press)
}

/** Keys that do something while the component is there. What came last goes first. */
export function useKeys(map: KeyMap) {
  const layer = useRef(map)
  layer.current = map
  useEffect(() => {
    layers.push(layer)
    return () => {
      layers.splice(layers.indexOf(layer), 1)
    }
  }, [])
}
