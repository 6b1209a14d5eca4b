import { useMemo, useState } from 'preact/hooks'
import { useRead } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { Routes } from '../../api/routes'
import { count, duration, rate } from '../../lib/format'
import { useKeys } from '../../lib/keys'
import { go, link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { FilterBox } from '../../ui/Field'
import { NoneIn } from '../../ui/NoneIn'
import { NoMatch, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { Filled } from '../../ui/Table'
import { Ago } from '../../ui/Time'
import { Count, VirtualRows, type Column } from '../../ui/VirtualRows'
import { JobDetail } from './JobDetail'
import { Submit } from './Submit'
import { strings } from '../../strings'
import { processing as say } from '../../strings/processing'

const words = strings.words

export type Job = Routes['GET /api/v1/processing/jobs'][number]

/** How full the last read was: a job that always reads whole batches is behind. */
export function Saturation({ job }: { job: Job }) {
  const { last_read_count: read, batch_size: size } = job.metrics
  return (
    <Filled part={size > 0 ? read / size : 0}>
      {count(read)}/{count(size)}
    </Filled>
  )
}

const idleMillis = 1000

/** Whether a job has read everything and has had nothing to do since: its watermark stands still, so its lag means nothing. */
const caughtUp = ({ metrics: m }: Job) => m.running && m.records_behind === 0 && m.idle_ms >= idleMillis

/** A job that has seen no record has no watermark, nor has one whose inputs are idle. */
export const lagOf = (job: Job) =>
  !job.metrics.running ? '–' : caughtUp(job) ? say.caughtUp : job.metrics.watermark_ms <= 0 ? '–' : duration(job.metrics.watermark_lag_ms)

export default function Processing() {
  const { id } = useRoute()
  return id[0] === undefined ? <List /> : <JobDetail key={id[0]} id={id[0]} />
}

function List() {
  const { ns, query } = useRoute()
  const q = useRead('GET /api/v1/processing/jobs', { namespace: ns, fields: 'all' }, 2000)
  const readOnly = useReadOnly()
  const [submitting, setSubmitting] = useState(false)
  const filter = query['filter'] ?? ''
  const all = q.data?.data ?? []
  const rows = useMemo(() => all.filter(j => j.name.includes(filter) || j.job_id.includes(filter)), [all, filter])
  useKeys(readOnly ? {} : { n: () => setSubmitting(true) })
  const columns: Column<Job>[] = [
    { key: 'name', title: words.job, width: 'minmax(120px, 2fr)', cell: j => j.name, sort: j => j.name },
    { key: 'status', title: words.status, width: '115px', cell: j => <State state={j.status} />, sort: j => j.status },
    {
      key: 'reason',
      title: strings.reason,
      width: 'minmax(120px, 2fr)',
      spare: 7,
      cell: j => (
        <span class={j.status === 'FAILED' ? 'crit' : 'warn'} title={j.reason ?? ''}>
          {j.reason ?? ''}
        </span>
      ),
    },
    { key: 'in', title: say.recordsIn, width: '80px', num: true, spare: 2, cell: j => count(j.metrics.records_in), sort: j => j.metrics.records_in },
    { key: 'out', title: words.out, width: '70px', num: true, spare: 3, cell: j => count(j.metrics.records_out), sort: j => j.metrics.records_out },
    {
      key: 'rate',
      title: words.inRate,
      width: '60px',
      spare: 4,
      num: true,
      cell: j => rate(j.metrics.throughput_per_sec),
      sort: j => j.metrics.throughput_per_sec,
      hint: say.rateHint,
    },
    { key: 'lag', title: words.lag, width: '84px', num: true, cell: lagOf, sort: j => (caughtUp(j) ? 0 : j.metrics.watermark_lag_ms), hint: say.lagHint },
    {
      key: 'latency',
      title: words.tick,
      width: '80px',
      num: true,
      spare: 5,
      cell: j => (j.metrics.latency_avg_ms > 0 ? duration(j.metrics.latency_avg_ms) : '–'),
      sort: j => j.metrics.latency_avg_ms,
      hint: say.tickHint,
    },
    {
      key: 'full',
      title: words.saturation,
      width: 'minmax(110px, 1fr)',
      spare: 1,
      cell: j => (j.metrics.running ? <Saturation job={j} /> : <span class="dim">–</span>),
      sort: j => j.metrics.last_read_count / Math.max(1, j.metrics.batch_size),
    },
    { key: 'age', title: words.made, width: '70px', num: true, spare: 6, cell: j => <Ago at={j.created_at} />, sort: j => -j.created_at },
  ]
  return (
    <div class="page fixed">
      <div class="head">
        <h1 tabIndex={-1}>{words.processing}</h1>
        <FilterBox value={filter} change={v => view({ filter: v })} placeholder={say.filter} />
        {q.data && <Count shown={rows.length} all={all.length} what={strings.many.jobs} />}
        <button class="btn primary push" disabled={readOnly !== ''} title={readOnly || 'n'} onClick={() => setSubmitting(true)}>
          {say.submit}
        </button>
      </div>
      <Panel fill flush label={words.jobs}>
        <Query
          q={q}
          empty={d => d.length === 0}
          whenEmpty={
            <NoneIn ns={ns} title={say.empty(ns)}>
              <Snippet
                command={floe(['processing', 'submit'], { ...inNamespace(ns), f: 'pipeline.yaml' })}
                call={curl('GET', '/processing/jobs', { namespace: ns })}
              />
            </NoneIn>
          }
        >
          {() =>
            rows.length === 0 ? (
              <NoMatch filter={filter} clear={() => view({ filter: '' })} />
            ) : (
              <VirtualRows label={words.jobs} rows={rows} columns={columns} keyOf={j => j.job_id} sortable href={j => link('processing', [j.job_id])} />
            )
          }
        </Query>
      </Panel>
      {submitting && <Submit ns={ns} close={() => setSubmitting(false)} opened={id => go(link('processing', [id], {}, ns))} />}
    </div>
  )
}
