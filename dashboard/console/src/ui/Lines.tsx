import { useState } from 'preact/hooks'
import type { Token } from '../lib/json'

const windowed = 2000
const lineHeight = 18

/** Lines of code with colours. Very many are windowed, and then not wrapped. While it is busy more lines come. */
export function Lines({ lines, wrap, label, busy = false }: { lines: readonly (string | Token[])[]; wrap: boolean; label: string; busy?: boolean }) {
  const [top, setTop] = useState(0)
  if (lines.length <= windowed) {
    return (
      <pre class={wrap ? 'lines wrap' : 'lines'} tabIndex={0} aria-label={label} aria-busy={busy}>
        {lines.map((l, i) => (
          <Line key={i} line={l} />
        ))}
      </pre>
    )
  }
  const from = Math.max(0, Math.floor(top / lineHeight) - 20)
  return (
    <pre class="lines tall" tabIndex={0} aria-label={label} aria-busy={busy} onScroll={e => setTop(e.currentTarget.scrollTop)}>
      <div style={{ height: `${lines.length * lineHeight}px`, paddingTop: `${from * lineHeight}px` }}>
        {lines.slice(from, from + 100).map((l, i) => (
          <Line key={from + i} line={l} />
        ))}
      </div>
    </pre>
  )
}

function Line({ line }: { line: string | Token[] }) {
  return (
    <div class="line">
      {typeof line === 'string'
        ? line || ' '
        : line.map(t => (t.kind === 'space' || t.kind === 'punct' ? t.text : <span class={`j-${t.kind}`}>{t.text}</span>))}
    </div>
  )
}
