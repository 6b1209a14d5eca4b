import { useEffect, useMemo, useState } from 'preact/hooks'
import { call, serverNow } from '../../api/client'
import { client, hold, invalidate, useRead, useWrite } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { QueueState, Routes } from '../../api/routes'
import { bytes, count } from '../../lib/format'
import { useKeys } from '../../lib/keys'
import { rateOf, useMeters } from '../../lib/meters'
import { go, link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { queues as say } from '../../strings/queues'
import { Act } from '../../ui/Act'
import { ByCommand } from '../../ui/ByCommand'
import { Confirm } from '../../ui/Dialog'
import { Tabs } from '../../ui/Field'
import { Inspector } from '../../ui/Inspector'
import { absent, Empty, Panel, Query } from '../../ui/Panel'
import { Payload } from '../../ui/Payload'
import { Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { Bar } from '../../ui/Table'
import { Left, Moment } from '../../ui/Time'
import { toast } from '../../ui/toasts'
import { VirtualRows, type Column } from '../../ui/VirtualRows'
import { Stat } from '../overview/Overview'
import { Bulk } from './Bulk'
import { Composition } from './Composition'
import { Enqueue } from './Enqueue'
import { Redrive } from './Redrive'
import { Settings } from './Settings'
import { Sentence } from '../../ui/Sentence'

const words = strings.words

export type Message = Routes['GET /api/v1/queues/:name/messages'][number]
type Tab = 'ready' | 'leased' | 'dlq'

const preview = 512
const most = 1000

/** What a priority means: 0 is the most urgent. */
export const urgency = (p: number) => say.urgency[p < 50 ? 0 : p < 100 ? 1 : p === 100 ? 2 : p <= 200 ? 3 : 4]!

export function QueueDetail({ name }: { name: string }) {
  const { ns, query } = useRoute()
  const tab = (['leased', 'dlq'].includes(query['state'] ?? '') ? query['state'] : 'ready') as Tab
  const seq = query['seq'] ?? ''
  const args = { name, namespace: ns }
  const q = useRead('GET /api/v1/queues/:name', args, 2000, { rates: true })
  const list = useRead(
    tab === 'dlq' ? 'GET /api/v1/queues/:name/dlq' : 'GET /api/v1/queues/:name/messages',
    { ...args, limit: most, max_payload: preview },
    2000,
    { keep: true },
  )
  const readOnly = useReadOnly()
  const [adding, setAdding] = useState(false)
  const [form, setForm] = useState<'' | 'settings' | 'redrive'>('')
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set())
  const [bulk, setBulk] = useState<'requeue' | 'delete' | null>(null)
  const release = () => setTicked(new Set())
  const ticking = ticked.size > 0
  useEffect(() => (ticking ? hold() : undefined), [ticking])
  useKeys(readOnly ? {} : { n: () => setAdding(true) })
  const read = list.data?.at ?? 0
  const rows = useMemo(() => (list.data?.data ?? []).filter(m => m.state === tab || tab === 'dlq'), [list.data, tab])
  const s = q.data?.data
  const enqueued = useMeters(
    `queue enqueued ${ns}`,
    s ? [s] : [],
    q.data?.at,
    r => r.name,
    r => r.enqueued,
  )
  const dequeued = useMeters(
    `queue dequeued ${ns}`,
    s ? [s] : [],
    q.data?.at,
    r => r.name,
    r => r.dequeued,
  )
  const until = (m: Message) => (m.lease_remaining_ms > 0 ? read - Date.now() + serverNow() + m.lease_remaining_ms : null)
  const state = useRead('GET /api/v1/console/queues/:name', { name, namespace: ns }, 5000).data?.data
  const reasons = useMemo(() => new Map(state?.dead.map(d => [String(d.seq), d]) ?? []), [state])
  const columns: Column<Message>[] = [
    { key: 'seq', title: words.seq, width: '60px', cell: m => <span class="mono">{m.seq}</span> },
    {
      key: 'priority',
      title: words.priority,
      width: '100px',
      spare: 1,
      cell: m => (
        <>
          {m.priority} <span class="dim">{urgency(m.priority)}</span>
        </>
      ),
    },
    { key: 'attempts', title: words.attempts, width: '64px', num: true, spare: 2, cell: m => <span class={m.attempts > 1 ? 'warn' : ''}>{m.attempts}</span> },
    ...(tab === 'dlq'
      ? []
      : [{ key: 'left', title: tab === 'leased' ? say.leaseLeft : say.delayedFor, width: '90px', num: true, cell: (m: Message) => <Left until={until(m)} /> }]),
    ...(tab === 'dlq'
      ? [
          {
            key: 'reason',
            title: strings.reason,
            width: 'minmax(140px, 2fr)',
            cell: (m: Message) => <span class="crit">{reasons.get(String(m.seq))?.reason ?? ''}</span>,
          },
        ]
      : []),
    { key: 'size', title: words.size, width: '70px', num: true, spare: 3, cell: m => bytes(m.size) },
    { key: 'payload', title: words.payload, width: 'minmax(100px, 1fr)', cell: m => <span class="mono">{m.payload.slice(0, 300)}</span> },
  ]
  const selected = rows.find(m => String(m.seq) === seq)
  const shown = tab === 'dlq' ? s?.dlq_count : tab === 'leased' ? s?.inflight : s?.pending
  return (
    <div class="page fixed">
      <div class="head">
        <a class="crumb" href={link('queues')}>
          {words.queues}
        </a>
        <span class="dim">/</span>
        <h1 tabIndex={-1}>{name}</h1>
        {state?.paused && <State state="paused" word={strings.queuePaused} />}
        {state && state.max_len > 0 && <span class="dim">{strings.queueBound(state.max_len)}</span>}
        <span class="row wrap push">
          {state && (
            <>
              <Act
                key={String(state.paused)}
                label={state.paused ? words.resume : words.pause}
                title={state.paused ? say.askResume(name) : say.askPause(name)}
                route={state.paused ? 'PUT /api/v1/queues/:name/resume' : 'PUT /api/v1/queues/:name/pause'}
                write={{ args }}
                touched={['/queues']}
                done={d => (d.paused ? say.isPaused(name) : say.isResumed(name))}
                command={floe(['queue', state.paused ? 'resume' : 'pause'], inNamespace(ns), [name])}
                call={curl('PUT', `/queues/${encodeURIComponent(name)}/${state.paused ? 'resume' : 'pause'}`, { namespace: ns })}
              >
                <Sentence of={state.paused ? say.willResume : say.willPause} put={{ queue: <code>{name}</code>, ns: <code>{ns}</code> }} />
              </Act>
              <button class="btn" disabled={readOnly !== ''} title={readOnly} onClick={() => setForm('settings')}>
                {say.settings}
              </button>
            </>
          )}
          <button class="btn primary" disabled={readOnly !== ''} title={readOnly || 'n'} onClick={() => setAdding(true)}>
            {words.enqueue}
          </button>
        </span>
      </div>
      <Query
        q={q}
        missing={
          <Empty title={say.missing(name, ns)}>
            <Snippet command={floe(['queue', 'enqueue'], inNamespace(ns), [name, '{"id":1}'])} />
          </Empty>
        }
      >
        {s => (
          <div class="stats" data-test="queue">
            <Stat dot="mix-ready" label={words.ready} value={count(s.available)} />
            <Stat dot="mix-delayed" label={words.delayed} value={count(s.ready - s.available)} />
            <Stat dot="mix-leased" label={say.inFlight} value={count(s.inflight)} />
            <Stat dot="mix-dead" label={words.dead} value={count(s.dlq_count)} tone={s.dlq_count > 0 ? 'crit' : ''} />
            <Stat label={words.enqueued} value={count(s.enqueued)} more={`${rateOf(enqueued(name))} /s`} />
            <Stat label={words.delivered} value={count(s.dequeued)} more={`${rateOf(dequeued(name))} /s`} />
          </div>
        )}
      </Query>
      {s && <Composition queue={s} tall />}
      {!absent(q) && <ByCommand what={say.purgeByCommand} commands={[floe(['queue', 'purge'], inNamespace(ns), [name])]} />}
      {tab === 'dlq' && state && state.reasons.length > 0 && <Reasons state={state} />}
      {!absent(q) && (
        <div class="split">
          <Panel
            fill
            flush
            label={words.messages}
            tools={
              <>
                <Tabs
                  label={words.state}
                  value={tab}
                  options={
                    [
                      [
                        'ready',
                        s && s.ready > s.available ? say.readyTabDelayed(count(s.available), count(s.ready - s.available)) : say.readyTab(count(s?.available)),
                      ],
                      ['leased', say.inFlightTab(count(s?.inflight))],
                      ['dlq', say.deadTab(count(s?.dlq_count))],
                    ] as const
                  }
                  change={t => {
                    release()
                    view({ state: t === 'ready' ? '' : t, seq: '' })
                  }}
                />
                {tab === 'dlq' && (
                  <span class="row push">
                    {ticked.size > 0 && <span class="dim">{say.ticked(ticked.size)}</span>}
                    <button class="btn" disabled={readOnly !== '' || !s || s.dlq_count === 0} title={readOnly} onClick={() => setForm('redrive')}>
                      {say.redrive}
                    </button>
                    <button class="btn" disabled={readOnly !== '' || ticked.size === 0} title={readOnly} onClick={() => setBulk('requeue')}>
                      {say.requeueTicked}
                    </button>
                    <button class="btn danger" disabled={readOnly !== '' || ticked.size === 0} title={readOnly} onClick={() => setBulk('delete')}>
                      {say.deleteTicked}
                    </button>
                  </span>
                )}
                {tab === 'ready' && rows.length > 0 && <Priorities rows={rows} />}
              </>
            }
          >
            <Query q={list}>
              {() =>
                rows.length === 0 ? (
                  <Empty title={tab === 'ready' ? say.noneReady : tab === 'leased' ? say.noneInFlight : say.noneDead} />
                ) : (
                  <VirtualRows
                    label={say.listLabel}
                    rows={rows}
                    columns={columns}
                    keyOf={m => String(m.seq)}
                    selected={seq || undefined}
                    total={list.data!.next !== '' ? Math.max(rows.length, shown ?? 0) : undefined}
                    open={m => view({ seq: String(m.seq) })}
                    {...(tab === 'dlq' ? { ticked, tick: setTicked } : {})}
                  />
                )
              }
            </Query>
          </Panel>
          {seq && (
            <MessageInspector
              ns={ns}
              queue={name}
              seq={seq}
              message={selected}
              died={reasons.get(seq)}
              tab={tab}
              readOnly={readOnly}
              close={() => view({ seq: '' })}
            />
          )}
        </div>
      )}
      {form === 'settings' && state && <Settings ns={ns} queue={name} state={state} close={() => setForm('')} />}
      {form === 'redrive' && s && <Redrive ns={ns} queue={name} dead={s.dlq_count} close={() => setForm('')} />}
      {adding && <Enqueue ns={ns} queue={name} close={() => setAdding(false)} opened={() => go(link('queues', [name]))} />}
      {bulk && (
        <Bulk
          ns={ns}
          queue={name}
          seqs={[...ticked]}
          what={bulk}
          close={() => {
            setBulk(null)
            release()
            void invalidate(client, ['/queues'])
          }}
        />
      )}
    </div>
  )
}

/** Dead-letter reasons, the most frequent first: as the node has counted them. */
function Reasons({ state }: { state: QueueState }) {
  const most = state.reasons[0]!.count
  return (
    <ul class="reasons" data-test="reasons" aria-label={strings.whyDead}>
      <li class="dim reasons-title" aria-hidden="true">
        {strings.whyDead}
      </li>
      {state.reasons.slice(0, 5).map(r => (
        <li key={r.reason}>
          <b class="num">{count(r.count)}</b>
          <Bar part={r.count / most} tone="crit" />
          <span class="clip" title={r.reason}>
            {r.reason || strings.noReason}
          </span>
        </li>
      ))}
      {(state.truncated || state.reasons.length > 5) && <li class="dim">{strings.moreReasons(Math.max(0, state.reasons.length - 5), state.truncated)}</li>}
    </ul>
  )
}

/** How urgent what waits is. */
function Priorities({ rows }: { rows: readonly Message[] }) {
  const groups = new Map<string, number>()
  for (const m of rows) groups.set(urgency(m.priority), (groups.get(urgency(m.priority)) ?? 0) + 1)
  return (
    <span class="row push dim">
      {[...groups].map(([what, n]) => (
        <span key={what} class="nowrap">
          <b>{count(n)}</b> {what}
        </span>
      ))}
      {rows.length >= most ? say.ofTheFirst : ''}
    </span>
  )
}

function MessageInspector(p: {
  ns: string
  queue: string
  seq: string
  message: Message | undefined
  died: QueueState['dead'][number] | undefined
  tab: Tab
  readOnly: string
  close: () => void
}) {
  const { ns, queue, seq, message: m, tab } = p
  const [asking, setAsking] = useState<'requeue' | 'delete' | null>(null)
  const args = { name: queue, seq, namespace: ns }
  const route = tab === 'dlq' ? 'GET /api/v1/queues/:name/dlq' : 'GET /api/v1/queues/:name/messages'
  // The list has the beginning of the payload only. The message itself is the one behind the place before it.
  const place = !m ? '' : tab === 'dlq' ? String(Math.max(0, Number(m.seq) - 1)) : Number(m.seq) > 1 ? `${m.priority}-${Number(m.seq) - 1}` : ''
  const whole = useRead(route, { name: queue, namespace: ns, limit: 1, after: place }, 0, { enabled: !!m })
  const full = whole.data?.data.find(x => x.seq === m?.seq)
  const requeue = useWrite('POST /api/v1/queues/:name/dlq/:seq/requeue', ['/queues'], () => {
    toast('ok', say.isReady(seq))
    p.close()
  })
  const remove = useWrite('DELETE /api/v1/queues/:name/dlq/:seq', ['/queues'], () => {
    toast('ok', say.isDeleted(seq))
    p.close()
  })
  const path = `/queues/${encodeURIComponent(queue)}/dlq/${seq}`
  return (
    <Inspector
      title={say.messageTitle(seq)}
      close={p.close}
      tools={
        tab === 'dlq' && m ? (
          <>
            <button class="btn" disabled={p.readOnly !== ''} title={p.readOnly} onClick={() => setAsking('requeue')}>
              {words.requeue}
            </button>
            <button class="btn danger" disabled={p.readOnly !== ''} title={p.readOnly} onClick={() => setAsking('delete')}>
              {words.delete}
            </button>
          </>
        ) : null
      }
    >
      {!m ? (
        <Empty title={say.gone} />
      ) : (
        <>
          <dl class="facts">
            <dt>{words.state}</dt>
            <dd>
              <State state={m.state === 'ready' && m.lease_remaining_ms > 0 ? 'delayed' : m.state} {...(m.state === 'dlq' ? { word: strings.dead } : {})} />
            </dd>
            {p.died && tab === 'dlq' && (
              <>
                <dt>{strings.reason}</dt>
                <dd class="crit" data-test="reason">
                  {p.died.reason || strings.noReason}
                </dd>
                <dt>{strings.died}</dt>
                <dd>
                  <Moment at={p.died.died_at} />
                </dd>
              </>
            )}
            <dt>{words.priority}</dt>
            <dd>
              {m.priority} <span class="dim">{urgency(m.priority)}</span>
            </dd>
            <dt>{words.attempts}</dt>
            <dd>{m.attempts}</dd>
            <dt>{words.size}</dt>
            <dd>{bytes(m.size)}</dd>
          </dl>
          <Payload
            text={full?.payload ?? m.payload}
            size={m.size}
            lossy={whole.data?.lossy ?? false}
            label={words.thePayload}
            file={`${queue}-${seq}`}
            base64={async () => (await call(route, { name: queue, namespace: ns, limit: 1, after: place, encoding: 'base64' })).data[0]?.payload ?? ''}
          />
        </>
      )}
      {asking === 'requeue' && (
        <Confirm
          title={say.askRequeue(seq)}
          action={words.requeue}
          danger={false}
          pending={requeue.isPending}
          error={requeue.error?.message}
          close={() => setAsking(null)}
          act={() => requeue.mutate({ args })}
        >
          <p>
            <Sentence of={say.willRequeue} put={{ seq, queue: <code>{queue}</code>, ns: <code>{ns}</code> }} />
          </p>
          <Snippet command={floe(['queue', 'dlq', 'requeue'], inNamespace(ns), [queue, seq])} call={curl('POST', path + '/requeue', { namespace: ns })} />
        </Confirm>
      )}
      {asking === 'delete' && (
        <Confirm
          title={say.askDelete(seq)}
          action={words.delete}
          pending={remove.isPending}
          error={remove.error?.message}
          close={() => setAsking(null)}
          act={() => remove.mutate({ args })}
        >
          <p>
            <Sentence of={say.willDelete} put={{ seq, queue: <code>{queue}</code>, ns: <code>{ns}</code>, size: bytes(m?.size ?? 0) }} />
          </p>
          <Snippet command={floe(['queue', 'dlq', 'delete'], inNamespace(ns), [queue, seq])} call={curl('DELETE', path, { namespace: ns })} />
        </Confirm>
      )}
    </Inspector>
  )
}
