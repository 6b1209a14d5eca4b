import { cleanup, fireEvent, render, screen } from '@testing-library/preact'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ApiError, type Answer } from '../src/api/client'
import type { Read } from '../src/api/hooks'
import { startKeys } from '../src/lib/keys'
import { conditionOf, Empty, Boundary, NoMatch, Query, type Condition } from '../src/ui/Panel'
import { State, toneOf } from '../src/ui/State'
import { VirtualRows } from '../src/ui/VirtualRows'
import { whatFailed } from '../src/screens/workflows/Runs'
import { Heartbeat } from '../src/screens/workers/Workers'

afterEach(cleanup)

/** A read as it stands. */
function read(q: { data?: string[]; error?: ApiError; fetching?: boolean; age?: number }): Read<string[]> & { asked: number } {
  const answer: Answer<string[]> | undefined = q.data && { data: q.data, lossy: false, next: '', hint: '', at: Date.now() }
  const r = {
    data: answer,
    error: q.error ?? null,
    isFetching: !!q.fetching,
    dataUpdatedAt: Date.now() - (q.age ?? 0),
    every: 2000,
    asked: 0,
    refetch: () => r.asked++,
  }
  return r as unknown as Read<string[]> & { asked: number }
}

const show = (q: Read<string[]>) =>
  render(
    <Query q={q} empty={d => d.length === 0} whenEmpty={<Empty title="No orders yet.">how to make one</Empty>} missing={<p>no such queue</p>}>
      {d => (
        <ul>
          {d.map(x => (
            <li key={x}>{x}</li>
          ))}
        </ul>
      )}
    </Query>,
  )

test('a run says what went wrong, and what was not compensated', () => {
  const error = 'step "charge": outcome "failure" at attempt 3: card refused'
  for (const [failed, error_, want] of [
    [0, null, ''],
    [0, error, 'card refused'],
    [1, error, '1 step not compensated: card refused'],
    [2, null, '2 steps not compensated'],
    [undefined, 'cancelled', 'cancelled'],
  ] as const)
    expect(whatFailed({ error: error_, ...(failed === undefined ? {} : { compensations_failed: failed }) })).toBe(want)
})

describe('a panel', () => {
  const minute = 60_000
  const rows: [Condition | 'empty' | 'missing', Parameters<typeof read>[0], RegExp, RegExp | null][] = [
    ['loading', { fetching: true }, /^$/, null],
    ['fresh', { data: ['a'] }, /^a$/, null],
    ['refreshing', { data: ['a'], fetching: true }, /^a$/, null],
    ['empty', { data: [] }, /No orders yet\.how to make one/, null],
    ['error', { error: new ApiError(500, 'it is on fire') }, /Could not load this.*it is on fire \(500\)Try again/, /a$/],
    ['error', { error: new ApiError(0, 'The node cannot be reached.') }, /cannot be reached\.Try again/, /\(0\)/],
    ['missing', { error: new ApiError(404, 'not found') }, /no such queue/, /Try again/],
    // A failure does not blank what was read: at first nothing, after three missed reads its age.
    ['fresh', { data: ['a'], error: new ApiError(500, 'it is on fire'), age: 3000 }, /^a$/, null],
    ['stale', { data: ['a'], error: new ApiError(500, 'it is on fire'), age: 5 * minute }, /Out of date: last read 5m ago\. it is on fireTry againa$/, null],
    ['gone', { data: ['a'], error: new ApiError(404, 'not found') }, /has been deleted.*a$/, null],
    ['forbidden', { data: ['a'], error: new ApiError(403, 'the key has the role read, this takes write') }, /does not allow.*takes write/, /a$/],
  ]
  for (const [name, q, shown, not] of rows) {
    test(`${name}: ${shown.source}`, () => {
      const { container } = show(read(q))
      expect(container.textContent).toMatch(shown)
      if (not) expect(container.textContent).not.toMatch(not)
      expect(container.querySelectorAll('.skeleton[aria-busy=true][role=status]').length).toBe(name === 'loading' ? 1 : 0)
      expect(container.querySelectorAll('.busy.on').length).toBe(name === 'refreshing' ? 1 : 0)
      expect(screen.queryAllByRole('alert').length).toBe(name === 'error' || name === 'forbidden' ? 1 : 0)
    })
  }
  test('what has failed is tried again', () => {
    const q = read({ error: new ApiError(500, 'it is on fire') })
    show(q)
    fireEvent.click(screen.getByText('Try again'))
    expect(q.asked).toBe(1)
  })
  test('three reads are missed before it is stale', () => {
    const at = (age: number) => conditionOf({ data: 1, error: new ApiError(0, ''), isFetching: false, dataUpdatedAt: 0, every: 2000 }, age)
    expect([at(6000), at(6001)]).toEqual(['fresh', 'stale'])
  })
  test('nothing matches: the filter is named, and can be cleared', () => {
    let cleared = 0
    const { container } = render(<NoMatch filter="xyz" clear={() => cleared++} />)
    expect(container.textContent).toContain('xyz')
    fireEvent.click(screen.getByText('Clear filter'))
    expect(cleared).toBe(1)
  })
  test('broken: a crash is told, leaves the others alone, and can be tried again', () => {
    let broken = true
    const Bad = () => {
      if (broken) throw new Error('x is undefined')
      return <p>well</p>
    }
    const { container } = render(
      <>
        <Boundary>
          <Bad />
        </Boundary>
        <p>beside it</p>
      </>,
    )
    expect(container.textContent).toMatch(/has crashed.*x is undefined.*beside it/)
    broken = false
    fireEvent.click(screen.getByText('Try again'))
    expect(container.textContent).toBe('wellbeside it')
  })
})

test('states: each is an icon, a word and a colour', () => {
  const tones = {
    ok: ['healthy', 'active', 'RUNNING', 'completed', 'enabled'],
    info: ['running', 'leased'],
    wait: ['pending', 'waiting', 'delayed'],
    warn: ['draining', 'STOPPED', 'timed_out', 'lagging'],
    crit: ['failed', 'FAILED', 'unhealthy', 'dlq'],
    idle: ['cancelled', 'disabled', 'COMPLETED'],
  }
  for (const [tone, states] of Object.entries(tones)) for (const s of states) expect([s, toneOf(s)]).toEqual([s, tone])
  expect(render(<State state="RUNNING" />).container.textContent).toBe('running')
  const { container } = render(<State state="timed_out" />)
  expect(container.querySelector('.state.warn svg')).not.toBe(null)
  expect(container.textContent).toBe('timed out')
})

test('heartbeats: amber after 30 s, red after 90 s', () => {
  const tone = (age: number) => render(<Heartbeat at={Date.now() - age} />).container.querySelector('span')!.className
  expect([25_000, 40_000, 100_000].map(tone)).toEqual(['', 'warn', 'crit'])
})

describe('a list of 10,000 rows', () => {
  beforeAll(() => {
    startKeys()
    // There is no layout here: the list is as high as 20 rows.
    Object.defineProperty(HTMLElement.prototype, 'clientHeight', { configurable: true, value: 20 * 28 })
  })
  const rows = Array.from({ length: 10_000 }, (_, i) => `row ${i}`)
  const columns = [{ key: 'name', title: 'Name', width: '100px', cell: (r: string) => r }]
  const list = (over: object = {}) => {
    const opened: string[] = []
    const { container } = render(<VirtualRows label="Rows" rows={rows} columns={columns} keyOf={r => r} open={r => opened.push(r)} {...over} />)
    const grid = container.querySelector<HTMLElement>('[role=grid]')!
    grid.focus()
    const press = (key: string) => fireEvent.keyDown(grid, { key })
    const active = () => {
      fireEvent.scroll(grid)
      return container.querySelector('.rows-row.active')?.textContent
    }
    return { container, grid, press, active, opened }
  }
  test('keys move in it, and few rows are in the page', () => {
    const { container, grid, press, active, opened } = list()
    expect(grid.getAttribute('aria-rowcount')).toBe('10001')
    for (const [key, want] of [
      ['j', 'row 0'],
      ['ArrowDown', 'row 1'],
      ['j', 'row 2'],
      ['k', 'row 1'],
      ['ArrowUp', 'row 0'],
      ['End', 'row 9999'],
      ['j', 'row 9999'],
      ['Home', 'row 0'],
      ['k', 'row 0'],
      [']', 'row 1'],
      ['[', 'row 0'],
    ] as const) {
      press(key)
      expect([key, active()]).toEqual([key, want])
      expect(container.querySelectorAll('.rows-row').length).toBeLessThanOrEqual(60)
      expect(grid.getAttribute('aria-activedescendant')).toBe(container.querySelector('.rows-row.active')!.id)
    }
    press('PageDown')
    expect(Number(active()!.slice(4))).toBeGreaterThan(5)
    press('Enter')
    expect(opened.length).toBe(1)
  })
  test('Space ticks', () => {
    let ticked: ReadonlySet<string> = new Set()
    const { press } = list({ ticked, tick: (next: ReadonlySet<string>) => (ticked = next) })
    press('j')
    press(' ')
    expect([...ticked]).toEqual(['row 0'])
  })
  test('the last row asks for more', () => {
    let asked = 0
    const { press } = list({ atEnd: () => asked++ })
    press('End')
    expect(asked).toBeGreaterThan(0)
  })
})
