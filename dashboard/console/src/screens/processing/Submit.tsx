import { Fragment } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { useRead, useWrite } from '../../api/hooks'
import type { Routes } from '../../api/routes'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { processing as say } from '../../strings/processing'
import { Dialog } from '../../ui/Dialog'
import { Editor, Graph } from '../../ui/Lazy'
import { Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { toast } from '../../ui/toasts'
import { useGraph } from '../workflows/Definition'

const words = strings.words

const example = `kind: Processing
name: large-orders
sources:
  - name: orders
    stream: { name: orders, partitions: all, start: earliest }
operators:
  - name: only-large
    type: filter
    condition: "json:$.cents>10000"
sinks:
  - name: out
    stream: { name: large-orders }
`

/** The name of the job in a definition, as far as it can be told without reading it all. */
export const nameIn = (yaml: string): string => /^(?:name|\{?\s*"name")\s*:\s*(?:"([^"]*)"|'([^']*)'|([^\s,#]+))/m.exec(yaml)?.slice(1).find(Boolean) ?? ''

/** Submits a pipeline, which the node reads and draws while it is typed, or applies it to the job of its name. */
export function Submit({ ns, of, close, opened }: { ns: string; of?: { name: string; yaml: string }; close: () => void; opened: (job: string) => void }) {
  const [yaml, setYAML] = useState(of?.yaml ?? example)
  const [settled, setSettled] = useState(yaml)
  const [applying, setApplying] = useState(of !== undefined)
  const [drop, setDrop] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(yaml), 400)
    return () => clearTimeout(timer)
  }, [yaml])
  const graph = useGraph('processing', settled)
  const problems = graph.data?.data.problems ?? []
  const marks = useMemo(
    () =>
      settled === yaml
        ? problems.map(p => ({ line: p.line, severity: p.severity === 'warning' ? ('warning' as const) : ('error' as const), message: p.message }))
        : [],
    [graph.data, settled, yaml],
  )
  const bad = problems.filter(p => p.severity !== 'warning').length
  const done = (data: { job_id: string; status: string }) => {
    toast('ok', say.jobIs(data.job_id, data.status.toLowerCase()))
    close()
    opened(data.job_id)
  }
  const submission = useWrite('POST /api/v1/processing/jobs', ['/processing'], done)
  const application = useWrite('PUT /api/v1/processing/jobs', ['/processing'], done)
  const write = applying ? application : submission
  const jobs = useRead('GET /api/v1/processing/jobs', { namespace: ns, fields: 'all' }, 2000).data?.data
  const name = nameIn(yaml)
  const same = applying ? 0 : (jobs ?? []).filter(j => j.name === name && j.status !== 'CANCELLED').length
  const planned = applying && settled === yaml && bad === 0
  // The plan is of an application that may drop state, so that it says which.
  const plan = useRead('POST /api/v1/processing/plan', { namespace: ns, drop_state: true }, 0, { body: settled, enabled: planned && !graph.isFetching })
  const dropped = (planned && plan.data?.data.dropped) || []
  const dropping = drop && dropped.length > 0
  const submit = () => {
    if (write.isPending) return
    if (applying) application.mutate({ args: { namespace: ns, ...(dropping ? { drop_state: true } : {}) }, body: yaml })
    else submission.mutate({ args: { namespace: ns }, body: yaml })
  }
  return (
    <Dialog
      title={of ? say.applyTitle(of.name) : applying ? say.applyIn(ns) : say.submitTitle(ns)}
      close={close}
      submit={submit}
      wide
      footer={
        <>
          <span class={bad > 0 ? 'crit' : 'dim'} role="status">
            {settled !== yaml ? '' : bad > 0 ? say.mistakes(bad) : say.noMistakes}
          </span>
          <button type="button" class="btn push" onClick={close}>
            {strings.cancel}
          </button>
          <button class="btn primary" disabled={write.isPending || (settled === yaml && bad > 0) || (dropped.length > 0 && !drop)}>
            {applying ? words.apply : words.submit}
          </button>
        </>
      }
    >
      <Editor value={yaml} change={setYAML} language="yaml" label={words.pipeline} submit={submit} marks={marks} />
      {problems.length > 0 && settled === yaml && (
        <ul>
          {problems.map((p, i) => (
            <li key={i} class={p.severity === 'warning' ? 'warn' : 'crit'}>
              {say.problem(p.line, p.message)}
            </li>
          ))}
        </ul>
      )}
      <Query q={graph}>{v => (v.graph.nodes.length > 0 ? <Graph label={say.thePipeline} nodes={v.graph.nodes} edges={v.graph.edges} /> : null)}</Query>
      {planned && plan.data && <Plan plan={plan.data.data} />}
      {planned && plan.error && <p class="crit">{plan.error.message}</p>}
      {dropped.length > 0 && (
        <label class="check">
          <input type="checkbox" checked={drop} onChange={e => setDrop(e.currentTarget.checked)} /> {say.dropState}
        </label>
      )}
      {write.error && (
        <p class="crit" role="alert">
          {write.error.message}
        </p>
      )}
      {same === 1 && (
        <div class="row wrap">
          <span>{say.applyInstead(name)}</span>
          <button type="button" class="btn" onClick={() => setApplying(true)}>
            {say.reviewApply}
          </button>
        </div>
      )}
      <Snippet
        command={floe(['processing', applying ? 'apply' : 'submit'], { ...inNamespace(ns), 'drop-state': dropping || undefined, f: 'pipeline.yaml' })}
        call={curl(applying ? 'PUT' : 'POST', '/processing/jobs', { namespace: ns, drop_state: dropping ? 'true' : '' }, yaml)}
      />
    </Dialog>
  )
}

/** What becomes of the state of a job. */
function Plan({ plan: p }: { plan: Routes['POST /api/v1/processing/plan'] }) {
  const rows = [
    [say.kept, p.kept],
    [say.dropped, p.dropped],
    [say.isNew, p.new],
    [say.notes, p.notes],
  ] as const
  return (
    <dl class="facts" data-test="plan">
      <dt>{say.plan}</dt>
      <dd>{p.created ? say.planCreates : p.changed ? say.planChanges : say.planNothing}</dd>
      {rows.map(
        ([what, of]) =>
          of.length > 0 && (
            <Fragment key={what}>
              <dt>{what}</dt>
              <dd class={what === say.dropped ? 'whole crit' : 'whole'}>{of.join(', ')}</dd>
            </Fragment>
          ),
      )}
    </dl>
  )
}
