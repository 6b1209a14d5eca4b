import { useRead } from '../../api/hooks'
import { useMe } from '../../api/me'
import { authEnabled } from '../../api/session'
import { mount } from '../../lib/mount'
import { useStore } from '../../lib/store'
import { Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { curl } from '../../lib/snippets'

/** What this is, where it is, and what it is made of. */
export default function About() {
  const q = useRead('GET /api/v1/cluster/stats', {}, 10_000)
  const me = useMe()
  const asks = useStore(authEnabled)
  return (
    <div class="page">
      <div class="head">
        <h1 tabIndex={-1}>About</h1>
      </div>
      <Panel>
        <Query q={q}>
          {s => (
            <dl class="facts">
              <dt>floe</dt>
              <dd>{s.version}</dd>
              <dt>Up for</dt>
              <dd>{s.uptime.replace(/^0d (0h )?/, '')}</dd>
              <dt>Mounted at</dt>
              <dd class="mono">{mount().toString()}</dd>
              <dt>Signed in</dt>
              <dd>{asks ? `with the role ${me.role}` : 'no: this node asks for no key'}</dd>
              {me.namespaces?.length > 0 && (
                <>
                  <dt>Namespaces</dt>
                  <dd>{me.namespaces.join(', ')}</dd>
                </>
              )}
              <dt>Licences</dt>
              <dd>
                <a href="THIRD_PARTY_LICENSES.md" target="_blank" rel="noopener noreferrer">
                  what this console is made of
                </a>
              </dd>
            </dl>
          )}
        </Query>
      </Panel>
      <Panel title="API">
        <Snippet command="floe cluster status" call={curl('GET', '/cluster/stats')} />
      </Panel>
    </div>
  )
}
