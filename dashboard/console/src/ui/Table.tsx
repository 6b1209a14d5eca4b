import type { ComponentChildren } from 'preact'

/** A table of a few rows, which scrolls sideways where it has no room. Headings that begin with # are of numbers. */
export function Table({
  label,
  heads,
  boxed,
  test,
  children,
}: {
  label: string
  heads: readonly string[]
  boxed?: boolean
  test?: string
  children: ComponentChildren
}) {
  return (
    <div class={boxed ? 'scroll-x panel' : 'scroll-x'} tabIndex={0} role="region" aria-label={label}>
      <table class="plain" data-test={test}>
        <thead>
          <tr>
            {heads.map(h => (
              <th key={h} scope="col" class={h.startsWith('#') ? 'num' : ''}>
                {h.replace(/^#/, '')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}

/** How much of something there is, as a bar. */
export function Bar({ part, tone = '' }: { part: number; tone?: '' | 'warn' | 'crit' }) {
  return (
    <span class={`bar grow ${tone}`} aria-hidden="true">
      <i style={{ width: `${100 * Math.min(1, part)}%` }} />
    </span>
  )
}

/** A bar that is amber when it is full, and its figures. */
export function Filled({ part, children }: { part: number; children: ComponentChildren }) {
  return (
    <span class="row">
      <Bar part={part} tone={part >= 1 ? 'warn' : ''} />
      <span>{children}</span>
    </span>
  )
}
