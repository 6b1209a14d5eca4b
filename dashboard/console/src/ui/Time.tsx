import { ago, dateTime, duration, iso } from '../lib/format'
import { copy } from '../lib/clipboard'
import { useZone } from '../lib/prefs'
import { serverNow } from '../api/client'
import { strings } from '../strings'
import { toast } from './toasts'
import { useNow } from './Panel'

/** How long ago, for lists; the time itself as title. 0 is no time. */
export function Ago({ at, none = '–' }: { at: number | null | undefined; none?: string }) {
  useNow()
  const zone = useZone()
  if (!at) return <>{none}</>
  return (
    <time dateTime={iso(at)} title={dateTime(at, zone)}>
      {ago(at, serverNow())}
    </time>
  )
}

/** The time and how long ago, for details; a click copies it. */
export function Moment({ at, none = '–' }: { at: number | null | undefined; none?: string }) {
  useNow()
  const zone = useZone()
  if (!at) return <>{none}</>
  const press = async () => {
    if (await copy(iso(at))) toast('ok', strings.copiedTime)
  }
  return (
    <button class="btn quiet moment" title={strings.copyTime} onClick={press}>
      <time dateTime={iso(at)}>{dateTime(at, zone)}</time> <span class="dim">{ago(at, serverNow())}</span>
    </button>
  )
}

/** What is left of a time, counting down between reads. */
export function Left({ until, none = '–' }: { until: number | null; none?: string }) {
  useNow()
  if (until === null) return <>{none}</>
  return <span title={iso(until)}>{duration(Math.max(0, until - serverNow()))}</span>
}
