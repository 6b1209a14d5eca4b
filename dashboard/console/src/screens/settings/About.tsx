import { useRead } from '../../api/hooks'
import { useMe } from '../../api/me'
import { authEnabled } from '../../api/session'
import { mount } from '../../lib/mount'
import { useStore } from '../../lib/store'
import { Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { curl, floe } from '../../lib/snippets'
import { strings } from '../../strings'

const words = strings.words
const say = strings.settings

/** What this is, where it is, and what it is made of. */
export default function About() {
  const q = useRead('GET /api/v1/cluster/stats', {}, 10_000)
  const me = useMe()
  const asks = useStore(authEnabled)
  return (
    <div class="page">
      <div class="head">
        <h1 tabIndex={-1}>{words.about}</h1>
      </div>
      <Panel>
        <Query q={q}>
          {s => (
            <dl class="facts">
              <dt>floe</dt>
              <dd>{s.version}</dd>
              <dt>{say.upFor}</dt>
              <dd>{s.uptime.replace(/^0d (0h )?/, '')}</dd>
              <dt>{say.mountedAt}</dt>
              <dd class="mono">{mount().toString()}</dd>
              <dt>{say.signedIn}</dt>
              <dd>{asks ? say.withRole(me.role) : say.noKeyAsked}</dd>
              {me.namespaces && me.namespaces.length > 0 && (
                <>
                  <dt>{words.namespaces}</dt>
                  <dd>{me.namespaces.join(', ')}</dd>
                </>
              )}
              <dt>{words.licences}</dt>
              <dd>
                <a href="THIRD_PARTY_LICENSES.md" target="_blank" rel="noopener noreferrer">
                  {say.licencesOf}
                </a>
              </dd>
            </dl>
          )}
        </Query>
      </Panel>
      <Panel title="API">
        <Snippet command={floe(['cluster', 'status'])} call={curl('GET', '/cluster/stats')} />
      </Panel>
    </div>
  )
}
