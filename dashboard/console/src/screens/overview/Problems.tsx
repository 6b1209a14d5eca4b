import './Problems.css'
import { useRead } from '../../api/hooks'
import type { Problems as List } from '../../api/routes'
import { link } from '../../lib/router'
import { strings } from '../../strings'
import { Icon } from '../../ui/Icon'
import { lost, Panel, Query } from '../../ui/Panel'

type Problem = List['problems'][number]

/** Where one looks next. */
function hrefOf(p: Problem): string {
  switch (p.kind) {
    case 'queue':
      return link('queues', [p.name], { state: p.of })
    case 'group':
      return link('streams', [p.of], { tab: 'groups', group: p.name })
    case 'action':
      return link('actions', [p.name], { status: 'pending' })
    case 'workflow':
      return link('workflows', [p.name], { status: p.of })
    case 'worker':
      return link('workers', [p.name])
    case 'job':
      return link('processing', [p.of])
    default:
      return link('overview')
  }
}

/** What was not looked at, with each reason once: what is in one shard is out of reach together. */
function reasons(missing: List['partial']): string {
  const whats = new Map<string, string[]>()
  for (const m of missing) whats.set(m.error, [...(whats.get(m.error) ?? []), m.what])
  return [...whats].map(([error, what]) => `${what.join(', ')} (${error})`).join('; ')
}

/** Problems in a namespace: what an operator on call reads first. */
export function Problems({ ns, missing }: { ns: string; missing: boolean }) {
  const q = useRead('GET /api/v1/console/problems', { namespace: ns }, 5000, { keep: true })
  const n = q.data?.data.problems.length ?? 0
  return (
    <Panel title={strings.attention} tools={q.data && !lost(q) && <span class={n > 0 ? 'tag crit' : 'tag'}>{n}</span>} flush>
      <Query q={q}>
        {d => (
          <>
            {d.partial.length > 0 && (
              <div class="note warn" role="status" data-test="partial">
                {strings.partial(reasons(d.partial))}
              </div>
            )}
            {d.problems.length === 0 && (missing || lost(q)) ? (
              <p class="blank dim">{lost(q) ? strings.unsure(ns) : strings.noNamespace(ns)}</p>
            ) : d.problems.length === 0 ? (
              <p class="blank ok">
                <span class="row">
                  <Icon name="ok" size={14} /> {strings.calm(ns)}
                </span>
              </p>
            ) : (
              <ul class="problems" data-test="problems">
                {d.problems.map(p => (
                  <li key={p.kind + p.of + p.name + p.severity}>
                    <a href={hrefOf(p)}>
                      <span class={`problems-icon ${p.severity}`}>
                        <Icon name={p.severity === 'crit' ? 'crit' : 'warn'} size={14} />
                        <span class="sr">{p.severity === 'crit' ? strings.critical : strings.warning}</span>
                      </span>
                      <span class="problems-kind">{p.kind}</span>
                      <span class="problems-name">{p.kind === 'group' ? `${p.of} / ${p.name}` : p.name}</span>
                      <span class="problems-text" title={p.text}>
                        {p.text}
                      </span>
                    </a>
                  </li>
                ))}
              </ul>
            )}
            {d.truncated && <div class="note">{strings.notAllLooked}</div>}
          </>
        )}
      </Query>
    </Panel>
  )
}
