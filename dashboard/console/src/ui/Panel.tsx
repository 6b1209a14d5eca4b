import { Component, type ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Answer, ApiError } from '../api/client'
import type { Read } from '../api/hooks'
import { ago } from '../lib/format'
import { strings } from '../strings'
import { Skeleton } from './Skeleton'

/** A crash of one panel leaves the others alone. */
export class Boundary extends Component<{ children: ComponentChildren; what?: string }, { error: Error | null }> {
  override state = { error: null as Error | null }
  static override getDerivedStateFromError(error: Error) {
    return { error }
  }
  override render() {
    const { error } = this.state
    if (!error) return this.props.children
    const chunk = /dynamically imported module|Importing a module script|Failed to fetch|Unable to preload/i.test(error.message)
    return (
      <div class="blank" role="alert">
        <strong>{chunk ? strings.updated : strings.broken}</strong>
        {!chunk && <code>{error.message}</code>}
        <button class="btn" onClick={() => (chunk ? location.reload() : this.setState({ error: null }))}>
          {chunk ? strings.reload : strings.retry}
        </button>
      </div>
    )
  }
}

/** The time, again and again, for what shows ages. */
export function useNow(every = 1000): number {
  const [now, set] = useState(Date.now())
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) set(Date.now())
    }, every)
    return () => clearInterval(timer)
  }, [every])
  return now
}

/** How a read stands, for what is drawn of it. */
export type Condition = 'loading' | 'forbidden' | 'gone' | 'error' | 'stale' | 'refreshing' | 'fresh'

/** Whether the node does not answer, so that nothing is known about the present state of what was read. */
export const lost = (q: { error: ApiError | null }): boolean => !!q.error && (q.error.status === 0 || q.error.status >= 500)

/** Whether a thing does not exist: its screen then shows the one message of that and nothing else of it. */
export const absent = (q: { data?: unknown; error: ApiError | null }): boolean => q.data === undefined && q.error?.status === 404

const missed = 3

export function conditionOf(q: { data?: unknown; error: ApiError | null; isFetching: boolean; dataUpdatedAt: number; every: number }, now: number): Condition {
  const status = q.error?.status
  if (q.error && (status === 403 || status === 404)) return q.data !== undefined && status === 404 ? 'gone' : status === 403 ? 'forbidden' : 'error'
  if (q.data === undefined) return q.error ? 'error' : 'loading'
  if (q.error && now - q.dataUpdatedAt > missed * Math.max(q.every, 1000)) return 'stale'
  return q.isFetching ? 'refreshing' : 'fresh'
}

interface QueryProps<T> {
  q: Read<T>
  children: (data: T, answer: Answer<T>) => ComponentChildren
  empty?: (data: T) => boolean
  whenEmpty?: ComponentChildren
  missing?: ComponentChildren // instead of the error if the thing does not exist
}

/** What a read has brought, with everything that may have come between: see Condition. */
export function Query<T>({ q, children, empty, whenEmpty, missing }: QueryProps<T>) {
  const now = useNow()
  const condition = conditionOf(q, now)
  if (condition === 'loading') return <Skeleton />
  if (condition === 'error' && q.error?.status === 404 && missing) return <>{missing}</>
  if (condition === 'error' || condition === 'forbidden') return <Failed error={q.error!} retry={() => void q.refetch()} />
  const answer = q.data!
  return (
    <>
      <Busy on={condition === 'refreshing'} />
      {condition === 'stale' && <Stale at={q.dataUpdatedAt} error={q.error} retry={() => void q.refetch()} />}
      {condition === 'gone' && (
        <div class="note warn" role="status">
          {strings.gone}
        </div>
      )}
      {empty?.(answer.data) ? whenEmpty : children(answer.data, answer)}
    </>
  )
}

/** What is shown is not what is: how old it is, and why. */
export function Stale({ at, error, retry }: { at: number; error: ApiError | null; retry: () => void }) {
  const now = useNow()
  return (
    <div class="note warn" role="status">
      <span>
        {strings.stale(ago(at, now))} {error?.message}
      </span>
      <button class="btn quiet" onClick={retry}>
        {strings.retry}
      </button>
    </div>
  )
}

export function Busy({ on }: { on: boolean }) {
  return <div class={on ? 'busy on' : 'busy'} aria-hidden="true" />
}

export function Failed({ error, retry }: { error: ApiError; retry?: () => void }) {
  const forbidden = error.status === 403
  return (
    <div class="blank" role="alert">
      <strong class={forbidden ? '' : 'crit'}>{forbidden ? strings.forbidden : error.status === 404 ? strings.notFound : strings.failed}</strong>
      <span>
        {error.message}
        {error.status > 0 && <span class="dim"> ({error.status})</span>}
      </span>
      {retry && (
        <button class="btn" onClick={retry}>
          {strings.retry}
        </button>
      )}
    </div>
  )
}

/** Nothing is there yet: a sentence, and how to make the first one. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="blank">
      <strong>{title}</strong>
      {children}
    </div>
  )
}

/** Nothing matches a filter. */
export function NoMatch({ filter, clear }: { filter: string; clear: () => void }) {
  return (
    <div class="blank">
      <strong>{strings.noMatch}</strong>
      <span>
        {strings.filter}: <code>{filter}</code>
      </span>
      <button class="btn" onClick={clear}>
        {strings.clearFilter}
      </button>
    </div>
  )
}

/** A titled part of a screen. */
export function Panel({
  title,
  tools,
  children,
  fill,
  flush,
  label,
}: {
  title?: ComponentChildren
  tools?: ComponentChildren
  children: ComponentChildren
  fill?: boolean
  flush?: boolean
  label?: string
}) {
  return (
    <section class={fill ? 'panel fill' : 'panel'} aria-label={label}>
      {(title || tools) && (
        <header>
          {title && <h2>{title}</h2>}
          {tools}
        </header>
      )}
      <div class={flush ? 'body flush' : 'body'}>
        <Boundary>{children}</Boundary>
      </div>
    </section>
  )
}
