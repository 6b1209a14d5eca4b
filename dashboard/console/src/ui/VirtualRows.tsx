import './VirtualRows.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useKeys } from '../lib/keys'
import { density, rowHeight } from '../lib/prefs'
import { useRoute, view } from '../lib/router'
import { useStore } from '../lib/store'

import { strings } from '../strings'

export interface Column<T> {
  key: string
  title: string
  width: string // of grid-template-columns; the least width is its first number of px
  cell: (row: T) => ComponentChildren
  num?: boolean
  sort?: (row: T) => number | string // makes it a column that can be sorted by
  hint?: string
  spare?: number // left out where there is no room, the highest number first
  dot?: string // the colour that it has elsewhere on the screen, a class
}

const gap = 12
const leastOf = <T,>(columns: readonly Column<T>[], ticks: boolean) =>
  columns.reduce((sum, c) => sum + Number(/(\d+)px/.exec(c.width)?.[1] ?? 80) + gap, 24 + (ticks ? 44 : 0))

/** The columns that have room beside each other, as far as some are spare. */
export function fitting<T>(columns: readonly Column<T>[], width: number, ticks = false): readonly Column<T>[] {
  let left = columns
  for (let spare = Math.max(0, ...columns.map(c => c.spare ?? 0)); spare > 0 && leastOf(left, ticks) > width; spare--)
    left = left.filter(c => c.spare !== spare)
  return left
}

interface Props<T> {
  label: string
  rows: readonly T[]
  columns: readonly Column<T>[]
  keyOf: (row: T) => string
  href?: (row: T) => string // of the row's link; Enter and a click go there
  open?: (row: T) => void
  selected?: string | undefined
  total?: number | undefined // if there are more than are loaded
  atEnd?: () => void // asks for more
  follow?: boolean // stay at the end
  ticked?: ReadonlySet<string>
  tick?: (next: ReadonlySet<string>) => void
  tone?: (row: T) => string
  sortable?: boolean
}

const overscan = 6
const most = 60

/** Rows of one height: only those that are seen are in the page. */
export function VirtualRows<T>(p: Props<T>) {
  useStore(density)
  const height = rowHeight()
  const id = useId()
  const box = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const [room, setRoom] = useState(600)
  const [width, setWidth] = useState(Infinity)
  const [active, setActive] = useState<string | null>(null)
  const [fresh, setFresh] = useState(0)
  const sort = useRoute().query['sort'] ?? ''
  const rows = useMemo(() => (p.sortable ? sorted(p.rows, p.columns, sort) : p.rows), [p.rows, sort, p.sortable])
  const columns = fitting(p.columns, width, !!p.tick)
  const template = (p.tick ? '32px ' : '') + columns.map(c => c.width).join(' ')
  const least = leastOf(columns, !!p.tick)
  const place = useMemo(() => new Map(rows.map((r, i) => [p.keyOf(r), i])), [rows])
  const current = place.get(active ?? '') ?? place.get(p.selected ?? '') ?? -1

  useLayoutEffect(() => {
    const el = box.current!
    const measure = () => {
      setRoom(el.clientHeight)
      if (el.clientWidth > 0) setWidth(el.clientWidth)
    }
    measure()
    if (typeof ResizeObserver === 'undefined') return
    const watch = new ResizeObserver(measure)
    watch.observe(el)
    return () => watch.disconnect()
  }, [])

  // What is being read stays where it is when rows come in above it.
  const anchor = useRef<{ key: string; index: number } | null>(null)
  useLayoutEffect(() => {
    const el = box.current!
    if (p.follow) {
      el.scrollTop = el.scrollHeight
      return
    }
    const was = anchor.current
    const now = was ? place.get(was.key) : undefined
    if (was && now !== undefined && now !== was.index && el.scrollTop > height / 2) {
      if (now > was.index) setFresh(n => n + now - was.index)
      el.scrollTop += (now - was.index) * height
      anchor.current = { key: was.key, index: now }
    }
  }, [rows, p.follow])

  const scrolled = () => {
    const el = box.current!
    setTop(el.scrollTop)
    const first = Math.floor(el.scrollTop / height)
    const row = rows[first]
    anchor.current = row ? { key: p.keyOf(row), index: first } : null
    if (el.scrollTop < height) setFresh(0)
    if (p.atEnd && el.scrollTop + el.clientHeight > el.scrollHeight - 10 * height) p.atEnd()
  }

  const from = Math.max(0, Math.floor(top / height) - overscan)
  const to = Math.min(rows.length, from + Math.min(most - 2, Math.ceil(room / height) + 2 * overscan))

  const reveal = (i: number) => {
    const el = box.current!
    const head = height
    const y = i * height
    if (y < el.scrollTop) el.scrollTop = y
    else if (y + height > el.scrollTop + el.clientHeight - head) el.scrollTop = y + height - el.clientHeight + head
  }
  const move = (i: number) => {
    const to = Math.max(0, Math.min(rows.length - 1, i))
    const row = rows[to]
    if (!row) return
    setActive(p.keyOf(row))
    reveal(to)
    box.current!.focus({ preventScroll: true })
    if (p.selected && p.open) p.open(row)
    if (to === rows.length - 1) p.atEnd?.()
  }
  const open = (row: T | undefined) => {
    if (!row) return
    setActive(p.keyOf(row))
    if (p.open) p.open(row)
    else if (p.href) location.hash = p.href(row)
  }
  const page = Math.max(1, Math.floor(room / height) - 2)
  const toggle = (key: string) => {
    if (!p.tick || !p.ticked) return
    const next = new Set(p.ticked)
    if (!next.delete(key)) next.add(key)
    p.tick(next)
  }
  const inside = () => document.activeElement === box.current || document.activeElement === document.body || document.activeElement?.tagName === 'H1'
  const whenInside = (f: () => void) => () => {
    if (inside()) f()
    else if (document.activeElement instanceof HTMLElement && document.activeElement.tagName !== 'BODY') document.activeElement.click()
  }
  useKeys({
    j: () => move(current + 1),
    k: () => move(current < 0 ? 0 : current - 1),
    ArrowDown: () => move(current + 1),
    ArrowUp: () => move(current < 0 ? 0 : current - 1),
    PageDown: () => move(current + page),
    PageUp: () => move(current - page),
    Home: () => move(0),
    End: () => move(rows.length - 1),
    ']': () => move(current + 1),
    '[': () => move(current - 1),
    Enter: whenInside(() => open(rows[current])),
    ...(p.tick ? { ' ': whenInside(() => rows[current] && toggle(p.keyOf(rows[current]!))) } : {}),
  })
  useEffect(() => {
    if (p.selected) {
      const i = place.get(p.selected)
      if (i !== undefined) reveal(i)
    }
  }, [p.selected])

  const allTicked = !!p.ticked && p.rows.length > 0 && p.ticked.size >= p.rows.length
  return (
    <div class="rows-frame">
      {fresh > 0 && (
        <button class="btn primary rows-new" onClick={() => (box.current!.scrollTop = 0)}>
          {strings.newRows(fresh)}
        </button>
      )}
      <div
        ref={box}
        class="rows"
        role="grid"
        tabIndex={0}
        aria-label={p.label}
        aria-rowcount={(p.total ?? rows.length) + 1}
        aria-activedescendant={current >= from && current < to ? `${id}-${current}` : undefined}
        onScroll={scrolled}
      >
        <div role="rowgroup" class="rows-head" style={{ minWidth: `${least}px` }}>
          <div role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
            {p.tick && (
              <span role="columnheader">
                <input
                  type="checkbox"
                  aria-label={strings.tickAll}
                  checked={allTicked}
                  onChange={() => p.tick!(allTicked ? new Set() : new Set(p.rows.map(p.keyOf)))}
                />
              </span>
            )}
            {columns.map(c => (
              <Head key={c.key} column={c} sort={p.sortable ? sort : null} />
            ))}
          </div>
        </div>
        <div role="rowgroup" class="rows-space" style={{ height: `${rows.length * height}px`, minWidth: `${least}px` }}>
          {rows.slice(from, to).map((row, n) => {
            const i = from + n
            const key = p.keyOf(row)
            const classes = ['rows-row', key === p.selected ? 'selected' : '', i === current ? 'active' : '', p.tone?.(row) ?? ''].join(' ')
            return (
              <div
                key={key}
                id={`${id}-${i}`}
                role="row"
                aria-rowindex={i + 2}
                aria-selected={key === p.selected}
                class={classes}
                style={{ transform: `translateY(${i * height}px)`, height: `${height}px`, gridTemplateColumns: template }}
                onClick={e => {
                  if ((e.target as HTMLElement).closest('a,button,input') || document.getSelection()?.toString()) return
                  open(row)
                }}
              >
                {p.tick && (
                  <span role="gridcell">
                    <input type="checkbox" tabIndex={-1} aria-label={strings.tick(key)} checked={p.ticked!.has(key)} onChange={() => toggle(key)} />
                  </span>
                )}
                {columns.map((c, n) => (
                  <span key={c.key} role="gridcell" class={c.num ? 'num' : ''}>
                    {n === 0 && p.href ? (
                      <a href={p.href(row)} tabIndex={-1}>
                        {c.cell(row)}
                      </a>
                    ) : (
                      c.cell(row)
                    )}
                  </span>
                ))}
              </div>
            )
          })}
        </div>
      </div>
      {p.total !== undefined && p.total > rows.length && <div class="rows-cut">{strings.truncated(rows.length, p.total)}</div>}
    </div>
  )
}

function Head<T>({ column: c, sort }: { column: Column<T>; sort: string | null }) {
  const on = sort === c.key ? 'ascending' : sort === '-' + c.key ? 'descending' : 'none'
  if (sort === null || !c.sort) {
    return (
      <span role="columnheader" class={c.num ? 'num' : ''} title={c.hint}>
        <Title column={c} />
      </span>
    )
  }
  const next = on === 'none' ? (c.num ? '-' : '') + c.key : on === (c.num ? 'descending' : 'ascending') ? (c.num ? '' : '-') + c.key : ''
  return (
    <span role="columnheader" aria-sort={on} class={c.num ? 'num' : ''} title={c.hint}>
      <button onClick={() => view({ sort: next })}>
        <Title column={c} />
        <i class="rows-order" aria-hidden="true">
          {on === 'ascending' ? '▲' : on === 'descending' ? '▼' : ''}
        </i>
      </button>
    </span>
  )
}

function Title<T>({ column: c }: { column: Column<T> }) {
  return (
    <>
      {c.dot && <i class={`stat-dot ${c.dot}`} aria-hidden="true" />}
      {c.title}
    </>
  )
}

export function sorted<T>(rows: readonly T[], columns: readonly Column<T>[], sort: string): readonly T[] {
  const by = columns.find(c => c.key === sort.replace(/^-/, ''))?.sort
  if (!by) return rows
  const sign = sort.startsWith('-') ? -1 : 1
  return rows
    .map((row, i) => ({ row, i, v: by(row) }))
    .sort((a, b) => (a.v < b.v ? -sign : a.v > b.v ? sign : a.i - b.i))
    .map(r => r.row)
}

/** "12 of 340 keys" beside a filter. */
export function Count({ shown, all, what, more }: { shown: number; all: number; what: (n: number) => string; more?: boolean }) {
  return (
    <span class="dim nowrap">
      {shown === all ? what(all) + (more ? strings.andMore : '') : strings.shownOf(shown, what(all) + (more ? strings.andMore : ''))}
    </span>
  )
}
