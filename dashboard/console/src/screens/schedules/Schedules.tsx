import { useMemo } from 'preact/hooks'
import { useRead } from '../../api/hooks'
import type { Routes } from '../../api/routes'
import { count, duration } from '../../lib/format'
import { link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { schedules as say } from '../../strings/schedules'
import { Act } from '../../ui/Act'
import { FilterBox } from '../../ui/Field'
import { Inspector } from '../../ui/Inspector'
import { NoneIn } from '../../ui/NoneIn'
import { Empty, NoMatch, Panel, Query } from '../../ui/Panel'
import { Sentence } from '../../ui/Sentence'
import { Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { Left, Moment } from '../../ui/Time'
import { Count, VirtualRows, type Column } from '../../ui/VirtualRows'

const words = strings.words

type Schedule = Routes['GET /api/v1/schedules'][number]

/** What tells schedules apart: that of a workflow has no name. */
const keyOf = (s: Schedule) => [s.kind, s.target, ...(s.name === null ? [] : [s.name])].join('/')
const nameOf = (s: Schedule) => s.name ?? s.target
const ruleOf = (s: Schedule) => (s.cron ? `${s.cron} ${s.timezone}`.trim() : say.every(duration(s.interval_ms)))

/** The schedules of actions and workflows, with their next times. */
export default function Schedules() {
  const { ns, query } = useRoute()
  const q = useRead('GET /api/v1/schedules', { namespace: ns, limit: 1000 }, 5000)
  const filter = query['filter'] ?? ''
  const open = query['schedule'] ?? ''
  const all = q.data?.data ?? []
  const rows = useMemo(() => all.filter(s => keyOf(s).includes(filter)), [all, filter])
  const selected = all.find(s => keyOf(s) === open)
  const columns: Column<Schedule>[] = [
    { key: 'name', title: words.name, width: 'minmax(100px, 1fr)', cell: nameOf, sort: nameOf },
    {
      key: 'target',
      title: say.target,
      width: 'minmax(120px, 1fr)',
      spare: 1,
      cell: s => (
        <>
          <span class="dim">{say.kinds[s.kind] ?? s.kind}</span> {s.target}
        </>
      ),
      sort: s => s.target,
    },
    { key: 'rule', title: say.rule, width: 'minmax(110px, 1fr)', spare: 2, cell: s => <span class="mono">{ruleOf(s)}</span> },
    { key: 'state', title: words.state, width: '90px', cell: s => <State state={s.paused ? 'paused' : 'active'} />, sort: s => Number(s.paused) },
    { key: 'next', title: say.next, width: '80px', num: true, cell: s => <Left until={s.paused ? null : s.next_at} />, sort: s => s.next_at ?? Infinity },
    { key: 'started', title: say.startedTotal, width: '70px', num: true, spare: 3, cell: s => count(s.started_total), sort: s => s.started_total },
    { key: 'missed', title: say.missed, width: '70px', num: true, spare: 4, cell: s => count(s.missed_total), sort: s => s.missed_total },
  ]
  return (
    <div class="page fixed">
      <div class="head">
        <h1 tabIndex={-1}>{words.schedules}</h1>
        <FilterBox value={filter} change={v => view({ filter: v })} placeholder={say.filter} />
        {q.data && <Count shown={rows.length} all={all.length} what={strings.many.schedules} more={q.data.next !== ''} />}
      </div>
      <div class="split">
        <Panel fill flush label={words.schedules}>
          <Query
            q={q}
            empty={d => d.length === 0}
            whenEmpty={
              <NoneIn ns={ns} title={say.empty(ns)}>
                <Snippet command={floe(['action', 'schedule', 'set'], { ...inNamespace(ns), every: '1h' }, ['ACTION', 'NAME', '{}'])} />
              </NoneIn>
            }
          >
            {() =>
              rows.length === 0 ? (
                <NoMatch filter={filter} clear={() => view({ filter: '' })} />
              ) : (
                <VirtualRows
                  label={words.schedules}
                  rows={rows}
                  columns={columns}
                  keyOf={keyOf}
                  sortable
                  selected={open || undefined}
                  open={s => view({ schedule: keyOf(s) })}
                />
              )
            }
          </Query>
        </Panel>
        {open && q.data && <Details key={open} ns={ns} id={open} schedule={selected} close={() => view({ schedule: '' })} />}
      </div>
    </div>
  )
}

function Details({ ns, id, schedule: s, close }: { ns: string; id: string; schedule: Schedule | undefined; close: () => void }) {
  if (!s) {
    return (
      <Inspector title={id} close={close}>
        <Empty title={say.gone} />
      </Inspector>
    )
  }
  const ofAction = s.name !== null
  return (
    <Inspector title={nameOf(s)} close={close} tools={<Tools key={String(s.paused)} ns={ns} schedule={s} />}>
      <dl class="facts">
        <dt>{words.state}</dt>
        <dd data-test="state">
          <State state={s.paused ? 'paused' : 'active'} />
        </dd>
        <dt>{say.target}</dt>
        <dd>
          <a href={link(ofAction ? 'actions' : 'workflows', [s.target])}>{s.target}</a>
        </dd>
        <dt>{say.rule}</dt>
        <dd class="mono">{ruleOf(s)}</dd>
        <dt>{say.next}</dt>
        <dd data-test="next">{s.next_at === null ? words.none : <Moment at={s.next_at} />}</dd>
        {s.last_run_id !== null && (
          <>
            <dt>{say.lastRun}</dt>
            <dd>
              <a href={link('actions', [s.target], { run: s.last_run_id })}>{s.last_run_id}</a>
            </dd>
          </>
        )}
        <dt>{say.startedTotal}</dt>
        <dd>{count(s.started_total)}</dd>
        <dt>{say.skipped}</dt>
        <dd>{count(s.skipped_total)}</dd>
        <dt>{say.missed}</dt>
        <dd>{count(s.missed_total)}</dd>
        <dt>{say.refused}</dt>
        <dd>{count(s.refused_total)}</dd>
        {s.note && (
          <>
            <dt>{say.note}</dt>
            <dd class="whole warn">{s.note}</dd>
          </>
        )}
      </dl>
      {!ofAction && <p class="dim">{say.byDefinition}</p>}
      <Snippet
        command={
          ofAction ? floe(['action', 'schedule', 'info'], inNamespace(ns), [s.target, nameOf(s)]) : floe(['workflow', 'info'], inNamespace(ns), [s.target])
        }
        call={curl('GET', pathOf(s), { namespace: ns })}
      />
    </Inspector>
  )
}

const pathOf = (s: Schedule) =>
  s.name === null
    ? `/workflow/definitions/${encodeURIComponent(s.target)}/schedule`
    : `/actions/${encodeURIComponent(s.target)}/schedules/${encodeURIComponent(s.name)}`

/** Pauses, resumes or triggers a schedule. A workflow is started from its own screen. */
function Tools({ ns, schedule: s }: { ns: string; schedule: Schedule }) {
  const verb = s.paused ? 'resume' : 'pause'
  const args = { name: s.target, schedule: s.name ?? undefined, namespace: ns }
  const put = { kind: say.kinds[s.kind] ?? s.kind, target: <code>{s.target}</code>, ns: <code>{ns}</code> }
  const command = s.name === null ? ['workflow', 'schedule'] : ['action', 'schedule']
  const names = s.name === null ? [s.target] : [s.target, s.name]
  return (
    <>
      <Act
        label={s.paused ? words.resume : words.pause}
        title={s.paused ? say.askResume(nameOf(s)) : say.askPause(nameOf(s))}
        route={
          s.name === null
            ? s.paused
              ? 'PUT /api/v1/workflow/definitions/:name/schedule/resume'
              : 'PUT /api/v1/workflow/definitions/:name/schedule/pause'
            : s.paused
              ? 'PUT /api/v1/actions/:name/schedules/:schedule/resume'
              : 'PUT /api/v1/actions/:name/schedules/:schedule/pause'
        }
        write={{ args }}
        touched={['/schedule']}
        done={() => (s.paused ? say.isResumed(nameOf(s)) : say.isPaused(nameOf(s)))}
        command={floe([...command, verb], inNamespace(ns), names)}
        call={curl('PUT', `${pathOf(s)}/${verb}`, { namespace: ns })}
      >
        <Sentence of={s.paused ? say.willResume : say.willPause} put={put} />
      </Act>
      {s.name !== null && (
        <Act
          label={say.trigger}
          title={say.askTrigger(s.name)}
          route="POST /api/v1/actions/:name/schedules/:schedule/trigger"
          write={{ args }}
          touched={['/schedule', '/actions']}
          done={d => say.isTriggered(d.run_id)}
          command={floe([...command, 'trigger'], inNamespace(ns), names)}
          call={curl('POST', `${pathOf(s)}/trigger`, { namespace: ns })}
        >
          <Sentence of={say.willTrigger} put={put} />
        </Act>
      )}
    </>
  )
}
