// Reads that are repeated, and writes that are not.
import { keepPreviousData, useMutation, useQuery, useQueryClient, QueryClient, type UseQueryResult } from '@tanstack/preact-query'
import { useRef } from 'preact/hooks'
import { cadence, cadences, type Cadence } from '../lib/prefs'
import { route, useRoute, view, type Route } from '../lib/router'
import { store, useStore } from '../lib/store'
import { asking } from './session'
import { ApiError, call, type Answer, type Call } from './client'
import type { Routes } from './routes'
import { toast } from '../ui/toasts'

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      retry: 0,
      networkMode: 'always',
      gcTime: 60_000,
      refetchOnWindowFocus: () => modeOf(route.get(), cadence.get()) !== 'paused',
      refetchOnReconnect: () => modeOf(route.get(), cadence.get()) !== 'paused',
    },
    mutations: { retry: 0, networkMode: 'always' },
  },
})

/** What keeps reads from being repeated for now: open dialogs, ticked rows. */
const holds = store(0)
const selecting = store(false)

export function hold(): () => void {
  holds.set(n => n + 1)
  let held = true
  return () => {
    if (held) holds.set(n => n - 1)
    held = false
  }
}

/** Notices that text is being selected, which a redraw would undo. Fields and editors keep their own selection. */
export function watchSelection() {
  const look = () => {
    const s = document.getSelection()
    selecting.set(!!s && !s.isCollapsed && s.toString().length > 0 && !document.activeElement?.matches('input, textarea, [data-editor]'))
  }
  document.addEventListener('selectionchange', look)
  // There is no event when the selected text leaves the page, as with a dialog that closes.
  setInterval(() => {
    if (selecting.get()) look()
  }, 1000)
}

/** How often reads are repeated in a view: as its address says, or else as it is set. */
const modeOf = (r: Route, usual: Cadence): Cadence => cadences.find(c => c === r.query['refresh']) ?? usual

export const useMode = (): Cadence => modeOf(useRoute(), useStore(cadence))

/** Sets how often reads are repeated, here and from now on. */
export function setMode(mode: Cadence) {
  view({ refresh: mode === 'live' ? '' : mode })
  cadence.set(mode)
}

const slower: Record<string, number | undefined> = { '10': 10_000, '60': 60_000 }

/** How often a read is repeated that live is repeated every so many ms: false if not. */
export function useCadence(every: number): number | false {
  const mode = useMode()
  const held = useStore(holds) > 0
  const selected = useStore(selecting)
  if (mode === 'paused' || held || selected || every <= 0) return false
  return Math.max(every, slower[mode] ?? 0)
}

const failures = new Map<string, number>()
const slowest = 60_000

/** How long until a read is repeated that is usually repeated after gap ms: the longer the more often it has failed in a row, and as long as the node has asked for. */
export const pause = (gap: number, failed: number, asked: number) =>
  failed === 0 ? gap : Math.max(asked, gap, Math.min(slowest, gap * 2 ** Math.min(failed, 8)))

export type Read<T> = UseQueryResult<Answer<T>, ApiError> & { every: number }

export interface ReadOptions extends Pick<Call, 'raw'> {
  keep?: boolean // show what was read before the arguments changed until the answer is there
  moving?: string // what the read is of when its arguments move on with time: a read of the same that fails leaves the one before
  enabled?: boolean
  rates?: boolean // of counters: the second read comes soon, so that they have rates
  body?: string // of a read that is a POST: a query
}

/** Reads an endpoint now, and every so many ms while the page is visible. */
export function useRead<K extends keyof Routes & string>(
  route: K,
  args: Record<string, string | number | boolean | undefined>,
  every: number,
  opts: ReadOptions = {},
): Read<Routes[K]> {
  const gap = useCadence(every)
  // A query that is a POST belongs to no resource that a write changes.
  const queryKey = [route, args, opts.body ?? '']
  const name = JSON.stringify(queryKey)
  const q = useQuery<Answer<Routes[K]>, ApiError>({
    queryKey,
    enabled: opts.enabled ?? true,
    staleTime: every / 2, // what another part of the page has just read is not read again
    queryFn: async ({ signal }) => {
      try {
        const answer = await call(route, args, { signal, ...(opts.raw ? { raw: opts.raw } : {}), ...(opts.body !== undefined ? { body: opts.body } : {}) })
        failures.delete(name)
        return answer
      } catch (e) {
        if ((e as Error).name !== 'AbortError') failures.set(name, (failures.get(name) ?? 0) + 1)
        throw e
      }
    },
    refetchInterval: query => {
      if (gap === false) return false
      if (opts.rates && query.state.dataUpdateCount === 1 && !query.state.error) return Math.min(gap, 1000)
      return pause(gap, failures.get(name) ?? 0, (query.state.error as ApiError | null)?.retryAfterMillis ?? 0)
    },
    ...(opts.keep || opts.moving !== undefined ? { placeholderData: keepPreviousData } : {}),
  })
  return useLast(Object.assign({ every }, q) as Read<Routes[K]>, opts.moving)
}

/** A read whose arguments move on, with the last answer in the place of one that did not come: each is a read of its own for the cache. */
function useLast<T>(q: Read<T>, of: string | undefined): Read<T> {
  const last = useRef<{ of: string; data: Answer<T>; at: number; error: ApiError | null } | null>(null)
  if (of === undefined) return q
  if (q.data !== undefined && !q.isPlaceholderData) last.current = { of, data: q.data, at: q.dataUpdatedAt, error: q.error }
  const l = last.current
  if (!l || l.of !== of || (q.data !== undefined && !q.isPlaceholderData)) return q
  if (q.error) l.error = q.error
  // An answer that says what is wrong with the question is no answer of before.
  if (!l.error || (l.error.status >= 400 && l.error.status < 500)) return q
  return { ...q, data: l.data, dataUpdatedAt: l.at, error: l.error } as unknown as Read<T>
}

export interface WriteArgs {
  args: Record<string, string | number | boolean | undefined>
  body?: string
}

/** Makes a write once, without retries. Then everything it may have changed is read again. */
export function useWrite<K extends keyof Routes & string>(route: K, touched: readonly string[], done?: (data: Routes[K], w: WriteArgs) => void) {
  const queries = useQueryClient()
  return useMutation<Answer<Routes[K]>, ApiError, WriteArgs>({
    mutationFn: w => call(route, w.args, w.body === undefined ? {} : { body: w.body }),
    onSuccess: (answer, w) => {
      done?.(answer.data, w)
      // What was deleted is closed by then, and not asked for once more.
      setTimeout(() => void invalidate(queries, touched), 50)
    },
    onError: e => {
      if (e.status === 403) toast('crit', e.message)
    },
  })
}

export function invalidate(queries: QueryClient, parts: readonly string[]) {
  return queries.invalidateQueries({ predicate: q => parts.some(p => String(q.queryKey[0]).includes(p)) })
}

/** Counts requests to read everything again, for readers that do not use useRead. */
export const refreshes = store(0)

/** Continues after a session has ended. Data read with the previous key stays on screen until it is read again, because open dialogs depend on it. */
export function resume() {
  client.removeQueries({ type: 'inactive' })
  asking.set(false)
  refreshNow()
}

/** Reads everything on the screen again. */
export function refreshNow() {
  refreshes.set(n => n + 1)
  void client.invalidateQueries({ refetchType: 'active' })
}
