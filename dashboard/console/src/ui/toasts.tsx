import './toasts.css'
import { store, useStore } from '../lib/store'
import { strings } from '../strings'

interface Toast {
  id: number
  tone: 'ok' | 'crit' | 'info'
  text: string
  href?: string
  linkText?: string
}

const all = store<Toast[]>([])
let last = 0

/** Says what has come of something, for a while; link leads to what was made. */
export function toast(tone: Toast['tone'], text: string, link?: { href: string; text: string }) {
  const t: Toast = { id: ++last, tone, text, ...(link ? { href: link.href, linkText: link.text } : {}) }
  all.set(now => [...now.slice(-3), t])
  setTimeout(() => dismiss(t.id), tone === 'crit' ? 12_000 : 5000)
}

const dismiss = (id: number) => all.set(now => now.filter(t => t.id !== id))

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {useStore(all).map(t => (
        <div key={t.id} class={`toast ${t.tone}`}>
          <span>{t.text}</span>
          {t.href && <a href={t.href}>{t.linkText}</a>}
          <button class="btn quiet" aria-label={strings.dismiss} onClick={() => dismiss(t.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  )
}
