import { useMemo, useState } from 'preact/hooks'
import { useRead } from '../../api/hooks'
import type { Routes } from '../../api/routes'
import { count, duration, percent } from '../../lib/format'
import { link, useRoute, view } from '../../lib/router'
import { floe, inNamespace } from '../../lib/snippets'
import { Dialog } from '../../ui/Dialog'
import { Field, FilterBox } from '../../ui/Field'
import { NoneIn } from '../../ui/NoneIn'
import { NoMatch, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { Count, VirtualRows, type Column } from '../../ui/VirtualRows'
import { ActionDetail } from './ActionDetail'
import { strings } from '../../strings'
import { actions as say } from '../../strings/actions'

const words = strings.words

export type Action = Routes['GET /api/v1/actions'][number]

/** The part of the runs that have ended which did not end well. */
export function errorRate(runs: Action['runs']): { part: number; text: string } {
  const bad = runs.failed + runs.timed_out
  const all = bad + runs.completed + runs.cancelled
  return { part: all > 0 ? bad / all : 0, text: percent(bad, all) }
}

export default function Actions() {
  const { id } = useRoute()
  return id[0] === undefined ? <List /> : <ActionDetail key={id[0]} name={id[0]} />
}

function List() {
  const { ns, query } = useRoute()
  const q = useRead('GET /api/v1/actions', { namespace: ns }, 5000)
  const [registering, setRegistering] = useState(false)
  const filter = query['filter'] ?? ''
  const all = q.data?.data ?? []
  const rows = useMemo(() => all.filter(a => a.name.includes(filter) || a.owner.includes(filter)), [all, filter])
  const columns: Column<Action>[] = [
    { key: 'name', title: words.action, width: 'minmax(130px, 2fr)', cell: a => a.name, sort: a => a.name },
    { key: 'type', title: words.type, width: '60px', spare: 6, cell: a => a.type, sort: a => a.type },
    { key: 'owner', title: words.owner, width: 'minmax(90px, 1fr)', spare: 3, cell: a => a.owner || <span class="dim">–</span>, sort: a => a.owner },
    { key: 'version', title: words.version, width: '56px', num: true, spare: 7, cell: a => count(a.version) },
    {
      key: 'enabled',
      title: words.state,
      width: '95px',
      spare: 4,
      cell: a => <State state={a.enabled ? 'enabled' : 'disabled'} />,
      sort: a => (a.enabled ? 1 : 0),
    },
    { key: 'runs', title: words.runs, width: '64px', num: true, spare: 1, cell: a => count(a.runs.total), sort: a => a.runs.total },
    {
      key: 'waiting',
      title: words.waiting,
      width: '70px',
      num: true,
      cell: a => <span class={a.runs.pending > 0 && a.worker_count === 0 ? 'warn' : ''}>{count(a.runs.pending)}</span>,
      sort: a => a.runs.pending,
    },
    {
      key: 'errors',
      title: words.errors,
      width: '70px',
      num: true,
      cell: a => <span class={errorRate(a.runs).part > 0 ? 'crit' : ''}>{errorRate(a.runs).text}</span>,
      sort: a => errorRate(a.runs).part,
      hint: say.errorsHint,
    },
    {
      key: 'avg',
      title: words.average,
      width: '76px',
      spare: 5,
      num: true,
      cell: a => (a.latency.count > 0 ? duration(a.latency.avg_ms) : '–'),
      sort: a => a.latency.avg_ms,
    },
    {
      key: 'p99',
      title: 'p99',
      width: '70px',
      num: true,
      spare: 2,
      cell: a => (a.latency.count > 0 ? duration(a.latency.p99_ms) : '–'),
      sort: a => a.latency.p99_ms,
    },
    {
      key: 'workers',
      title: words.workers,
      spare: 1,
      width: '70px',
      num: true,
      cell: a => <span class={a.worker_count === 0 ? 'warn' : ''}>{count(a.worker_count)}</span>,
      sort: a => a.worker_count,
    },
  ]
  return (
    <div class="page fixed">
      <div class="head">
        <h1 tabIndex={-1}>{words.actions}</h1>
        <FilterBox value={filter} change={v => view({ filter: v })} placeholder={say.filter} />
        {q.data && <Count shown={rows.length} all={all.length} what={strings.many.actions} />}
        <button class="btn push" onClick={() => setRegistering(true)}>
          {say.howToRegister}
        </button>
      </div>
      <Panel fill flush label={words.actions}>
        <Query
          q={q}
          empty={d => d.length === 0}
          whenEmpty={
            <NoneIn ns={ns} title={say.empty(ns)}>
              <Snippet command={floe(['action', 'register'], inNamespace(ns), ['greet'])} />
            </NoneIn>
          }
        >
          {() =>
            rows.length === 0 ? (
              <NoMatch filter={filter} clear={() => view({ filter: '' })} />
            ) : (
              <VirtualRows label={words.actions} rows={rows} columns={columns} keyOf={a => a.name} sortable href={a => link('actions', [a.name])} />
            )
          }
        </Query>
      </Panel>
      {registering && <Register ns={ns} close={() => setRegistering(false)} />}
    </div>
  )
}

/** Registering is for the command line: this writes the command. */
function Register({ ns, close }: { ns: string; close: () => void }) {
  const [name, setName] = useState('')
  const [timeout, setTimeout_] = useState('')
  const [retries, setRetries] = useState('')
  const [owner, setOwner] = useState('')
  const [description, setDescription] = useState('')
  const command = floe(['action', 'register'], { ...inNamespace(ns), timeout, 'max-retries': retries, owner, description }, [name || 'NAME'])
  return (
    <Dialog title={say.register} close={close}>
      <p class="dim">{say.registerIntro}</p>
      <Snippet command={command} />
      <Field label={words.name}>
        <input class="input" value={name} onInput={e => setName(e.currentTarget.value)} />
      </Field>
      <div class="row wrap gap-16">
        <Field label={words.timeout} hint={say.timeoutHint}>
          <input class="input" size={8} value={timeout} onInput={e => setTimeout_(e.currentTarget.value)} />
        </Field>
        <Field label={words.retries}>
          <input class="input" size={6} inputMode="numeric" value={retries} onInput={e => setRetries(e.currentTarget.value)} />
        </Field>
        <Field label={words.owner}>
          <input class="input" size={14} value={owner} onInput={e => setOwner(e.currentTarget.value)} />
        </Field>
      </div>
      <Field label={words.description}>
        <input class="input" value={description} onInput={e => setDescription(e.currentTarget.value)} />
      </Field>
    </Dialog>
  )
}
