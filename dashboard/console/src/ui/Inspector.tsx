import './Inspector.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { useKeys } from '../lib/keys'
import { keep, recall } from '../lib/mount'
import { strings } from '../strings'
import { Icon } from './Icon'
import { Boundary } from './Panel'
import { CopyButton } from './Snippet'

/** What is open, beside its list. Esc closes it. Its left edge can be drawn, or moved with the arrow keys. */
export function Inspector({ title, close, tools, children }: { title: string; close: () => void; tools?: ComponentChildren; children: ComponentChildren }) {
  const box = useRef<HTMLElement>(null)
  useKeys({ Escape: close })
  const resize = (px: number) => {
    const width = Math.max(300, Math.min(window.innerWidth - 480, px))
    box.current?.style.setProperty('--inspector', `${width}px`)
    keep('inspector', width)
  }
  useEffect(() => {
    const width = recall<number>('inspector', 0)
    if (width > 0) resize(width)
    // The focus goes back where it was: what had it in here goes with it.
    const aside = box.current!
    const before = document.activeElement
    return () => {
      const active = document.activeElement
      if (active !== document.body && !aside.contains(active)) return
      const opener = before instanceof HTMLElement && before !== document.body && before.isConnected ? before : null
      const to = opener ?? document.querySelector<HTMLElement>('#main [role=grid]') ?? document.querySelector<HTMLElement>('#main h1')
      to?.focus({ preventScroll: true })
    }
  }, [])
  const drag = (e: PointerEvent) => {
    const right = box.current!.getBoundingClientRect().right
    const handle = e.currentTarget as HTMLElement
    handle.setPointerCapture(e.pointerId)
    const move = (m: PointerEvent) => resize(right - m.clientX)
    handle.addEventListener('pointermove', move)
    handle.addEventListener('pointerup', () => handle.removeEventListener('pointermove', move), { once: true })
  }
  const width = () => box.current?.offsetWidth ?? 480
  return (
    <aside ref={box} class="inspector panel" aria-label={strings.inspector(title)}>
      <div
        class="inspector-edge"
        role="separator"
        aria-orientation="vertical"
        aria-label={strings.resize}
        aria-valuenow={40}
        tabIndex={0}
        onPointerDown={drag}
        onKeyDown={e => {
          if (e.key === 'ArrowLeft') resize(width() + 32)
          else if (e.key === 'ArrowRight') resize(width() - 32)
          else return
          e.preventDefault()
          e.stopPropagation()
        }}
      />
      <header>
        <h2 class="mono grow">{title}</h2>
        <CopyButton text={title} />
        {tools}
        <button class="btn quiet" aria-label={strings.close} title={strings.closeKey} onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <div class="inspector-body">
        <Boundary>{children}</Boundary>
      </div>
    </aside>
  )
}
