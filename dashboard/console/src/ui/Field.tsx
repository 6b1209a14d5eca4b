import type { ComponentChildren } from 'preact'

/** A labelled control. */
export function Field({
  label,
  children,
  problem,
  hint,
  grow,
}: {
  label: string
  children: ComponentChildren
  problem?: string | undefined
  hint?: string
  grow?: boolean
}) {
  return (
    <label class={grow ? 'field grow' : 'field'}>
      <span class="label">
        {label}
        {hint && <span class="dim"> · {hint}</span>}
      </span>
      {children}
      {problem && (
        <span class="problem" role="alert">
          {problem}
        </span>
      )}
    </label>
  )
}

/** One of a few values. */
export function Segmented<T extends string>({
  value,
  options,
  change,
  label,
}: {
  value: T
  options: readonly (readonly [T, string])[]
  change: (v: T) => void
  label: string
}) {
  return (
    <div class="segmented" role="group" aria-label={label}>
      {options.map(([v, text]) => (
        <button key={v} type="button" aria-pressed={v === value} onClick={() => change(v)}>
          {text}
        </button>
      ))}
    </div>
  )
}

/** The parts of a screen; arrows move between them. */
export function Tabs<T extends string>({
  value,
  options,
  change,
  label,
}: {
  value: T
  options: readonly (readonly [T, string])[]
  change: (v: T) => void
  label: string
}) {
  const move = (e: KeyboardEvent) => {
    const step = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0
    if (step === 0) return
    e.preventDefault()
    e.stopPropagation()
    const i = options.findIndex(([v]) => v === value)
    const to = options[(i + step + options.length) % options.length]!
    change(to[0])
    ;((e.currentTarget as HTMLElement).children[(i + step + options.length) % options.length] as HTMLElement | undefined)?.focus()
  }
  return (
    <div class="segmented" role="tablist" aria-label={label} onKeyDown={move}>
      {options.map(([v, text]) => (
        <button key={v} type="button" role="tab" aria-selected={v === value} tabIndex={v === value ? 0 : -1} onClick={() => change(v)}>
          {text}
        </button>
      ))}
    </div>
  )
}

/** A box that filters; '/' focuses it. */
export function FilterBox({ value, change, placeholder, mono }: { value: string; change: (v: string) => void; placeholder: string; mono?: boolean }) {
  return (
    <input
      class={mono ? 'input mono filterbox' : 'input filterbox'}
      type="search"
      data-filter
      value={value}
      placeholder={placeholder}
      aria-label={placeholder}
      spellcheck={false}
      autocomplete="off"
      onInput={e => change(e.currentTarget.value)}
    />
  )
}
