import './Shell.css'
import type { ComponentType } from 'preact'
import { lazy, Suspense } from 'preact/compat'
import { useEffect, useState } from 'preact/hooks'
import { call } from '../api/client'
import { refreshNow, setMode, useMode, useRead } from '../api/hooks'
import { useMe, useSessionEnd } from '../api/me'
import { useNamespaces } from '../api/namespaces'
import { asking, authEnabled, signOut, token } from '../api/session'
import { copy } from '../lib/clipboard'
import { useKeys, type KeyMap } from '../lib/keys'
import { cadence, shortcuts, theme, zone, type Cadence } from '../lib/prefs'
import { busiest } from '../lib/namespaces'
import { formatRoute, go, link, namespaceOf, replace, unchosen, useRoute, view } from '../lib/router'
import { useStore } from '../lib/store'
import { strings } from '../strings'
import { frozenLink } from '../lib/freeze'
import { Icon, type IconName } from './Icon'
import { Help } from './Help'
import { Palette } from './Palette'
import { Boundary, lost } from './Panel'
import { Skeleton } from './Skeleton'
import { State } from './State'
import { Unled, unled, useShards } from './Unled'
import { Toasts, toast } from './toasts'

const words = strings.words
const say = strings.shell

const listed: { name: string; title: string; icon: IconName; key: string }[] = [
  { name: 'overview', title: words.overview, icon: 'overview', key: 'o' },
  { name: 'kv', title: 'KV', icon: 'kv', key: 'k' },
  { name: 'streams', title: words.streams, icon: 'streams', key: 's' },
  { name: 'queues', title: words.queues, icon: 'queues', key: 'q' },
  { name: 'ts', title: words.timeSeries, icon: 'ts', key: 't' },
  { name: 'actions', title: words.actions, icon: 'actions', key: 'a' },
  { name: 'workers', title: words.workers, icon: 'workers', key: 'w' },
  { name: 'processing', title: words.processing, icon: 'processing', key: 'p' },
  { name: 'workflows', title: words.workflows, icon: 'workflows', key: 'l' },
  { name: 'schedules', title: words.schedules, icon: 'schedules', key: 'h' },
  { name: 'access', title: words.access, icon: 'access', key: 'c' },
]

const pages: Record<string, ComponentType | undefined> = {
  overview: lazy(() => import('../screens/overview/Overview')),
  kv: lazy(() => import('../screens/kv/KV')),
  streams: lazy(() => import('../screens/streams/Streams')),
  queues: lazy(() => import('../screens/queues/Queues')),
  ts: lazy(() => import('../screens/ts/TS')),
  floql: lazy(() => import('../screens/floql/Floql')),
  actions: lazy(() => import('../screens/actions/Actions')),
  workers: lazy(() => import('../screens/workers/Workers')),
  processing: lazy(() => import('../screens/processing/Processing')),
  workflows: lazy(() => import('../screens/workflows/Workflows')),
  runs: lazy(() => import('../screens/workflows/Run')),
  schedules: lazy(() => import('../screens/schedules/Schedules')),
  access: lazy(() => import('../screens/access/Access')),
  login: lazy(() => import('../screens/login/Login')),
  settings: lazy(() => import('../screens/settings/Settings')),
  about: lazy(() => import('../screens/settings/About')),
}

const Again = lazy(() => import('../screens/login/Again'))

/** Those that there are, in the order of the menu. */
export const screens = listed.filter(s => pages[s.name])

const parents: Record<string, string> = { floql: 'ts', runs: 'workflows' }

export function Shell() {
  const route = useRoute()
  const [palette, setPalette] = useState(false)
  const [help, setHelp] = useState(false)
  const [menu, setMenu] = useState(false)
  const title = screens.find(s => s.name === (parents[route.screen] ?? route.screen))?.title ?? route.screen
  useEffect(() => {
    document.title = [route.id[0], title, route.ns].filter(Boolean).join(' · ') + ' · floe'
    setMenu(false)
  }, [route.screen, route.id[0], route.ns])
  useEffect(() => {
    // The heading of what was gone to is what is read first.
    const focus = () => document.querySelector<HTMLElement>('#main h1')?.focus({ preventScroll: true })
    const active = document.activeElement
    if (!active || active === document.body || active.closest('.side')) requestAnimationFrame(focus)
  }, [route.screen])

  // The address reproduces this view for others, paused if it is paused.
  const usual = useStore(cadence)
  const mode = useMode()
  useEffect(() => {
    if (usual !== 'live' && route.screen !== 'login' && route.query['refresh'] === undefined) view({ refresh: usual })
  }, [usual, route])

  const keys: KeyMap = {
    '?': () => setHelp(true),
    'mod+k': () => setPalette(true),
    '/': () => document.querySelector<HTMLInputElement>('#main [data-filter]')?.focus(),
    r: () => refreshNow(),
    p: () => setMode(mode === 'paused' ? 'live' : 'paused'),
    c: () => void copyLink(),
  }
  const locked = useStore(asking)
  const admin = useMe().role === 'admin'
  const listedHere = screens.filter(s => s.name !== 'access' || admin)
  useSessionEnd()
  for (const s of screens) keys[`g ${s.key}`] = () => go(link(s.name))
  useKeys(keys)

  if (route.screen === 'login') {
    return (
      <>
        <Page name="login" />
        <Toasts />
      </>
    )
  }
  return (
    <>
      <div class={['shell', menu ? 'menu-open' : '', locked ? 'locked' : ''].join(' ')}>
        <a
          class="skip"
          href="#main"
          onClick={e => {
            e.preventDefault()
            document.querySelector<HTMLElement>('#main h1')?.focus()
          }}
        >
          {say.skip}
        </a>
        <Header menu={() => setMenu(!menu)} search={() => setPalette(true)} help={() => setHelp(true)} />
        <nav class="side" aria-label={say.screens}>
          <ul>
            {listedHere.map(s => (
              <li key={s.name}>
                <a href={link(s.name)} title={s.title} aria-current={(parents[route.screen] ?? route.screen) === s.name ? 'page' : undefined}>
                  <Icon name={s.icon} size={16} />
                  <span>{s.title}</span>
                </a>
              </li>
            ))}
          </ul>
          <ul class="side-foot">
            <li>
              <a href="#/settings" title={strings.settings.title} aria-current={route.screen === 'settings' ? 'page' : undefined}>
                <Icon name="settings" size={16} />
                <span>{strings.settings.title}</span>
              </a>
            </li>
            <li>
              <a href="#/about" title={say.about} aria-current={route.screen === 'about' ? 'page' : undefined}>
                <Icon name="info" size={16} />
                <span>{say.about}</span>
              </a>
            </li>
          </ul>
        </nav>
        <main id="main">
          <Unled />
          <Page name={route.screen} />
        </main>
        {palette && <Palette close={() => setPalette(false)} />}
        {help && <Help close={() => setHelp(false)} />}
        <Toasts />
      </div>
      {locked && (
        <Boundary>
          <Suspense fallback={null}>
            <Again />
          </Suspense>
        </Boundary>
      )}
    </>
  )
}

function Page({ name }: { name: string }) {
  const Screen = pages[name]
  if (!Screen) {
    return (
      <div class="page">
        <h1 tabIndex={-1}>{say.noScreen}</h1>
        <p>
          <code>{name}</code> <a href={link('overview')}>{say.overview}</a>
        </p>
      </div>
    )
  }
  return (
    <Boundary key={name}>
      <Suspense fallback={<Skeleton />}>
        <Screen />
      </Suspense>
    </Boundary>
  )
}

async function copyLink() {
  if (await copy(frozenLink())) toast('ok', strings.copiedLink)
}

function Header({ menu, search, help }: { menu: () => void; search: () => void; help: () => void }) {
  const signedIn = useStore(token) !== ''
  const asks = useStore(authEnabled)
  return (
    <header class="top">
      <button class="btn quiet top-menu" aria-label={say.menu} onClick={menu}>
        <Icon name="menu" size={16} />
      </button>
      <a class="brand" href={link('overview')} aria-label={say.home}>
        <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
          <path fill="var(--accent)" d="M3 17 9 6l7 4 7-5 6 12z" />
          <path fill="var(--accent)" opacity="0.55" d="m3 18 26 0-5 9-8 2-9-3z" />
        </svg>
        <span>floe</span>
      </a>
      <Namespaces />
      <button class="btn search" onClick={search} title={say.goToTitle}>
        <Icon name="search" />
        <span>{say.goTo}</span>
        <kbd>Ctrl K</kbd>
      </button>
      <span class="push" />
      <Refresh />
      <ZoneSwitch />
      <ThemeSwitch />
      <button class="btn quiet top-help" aria-label={say.help} title={say.helpTitle} onClick={help}>
        <b aria-hidden="true">?</b>
      </button>
      <Health />
      {asks && signedIn && (
        <button
          class="btn quiet"
          onClick={() => {
            // If the node does not answer, the token is at least forgotten here.
            call('DELETE /api/v1/auth/session').catch(() => {})
            signOut()
            go(formatRoute({ ns: '', screen: 'login', id: [], query: {} }))
          }}
        >
          {say.signOut}
        </button>
      )}
    </header>
  )
}

function Namespaces() {
  const route = useRoute()
  const q = useNamespaces()
  const busy = useStore(unchosen) && q.data ? busiest(q.data.data) : ''
  useEffect(() => {
    if (busy && route.ns === 'default' && route.screen === 'overview') {
      unchosen.set(false)
      replace(formatRoute({ ...route, ns: busy }))
    }
  }, [busy, route])
  const current = namespaceOf(route)
  const names = q.data?.data.map(n => n.name) ?? []
  const all = names.includes(current) ? names : [current, ...names]
  return (
    <label class="namespaces">
      <span class="sr">{say.namespace}</span>
      <select
        class="select"
        title={say.namespace}
        value={current}
        onChange={e => {
          const screen = parents[route.screen] ?? (route.ns ? route.screen : 'overview')
          go(link(screen, [], {}, e.currentTarget.value))
        }}
      >
        {all.map(n => (
          <option key={n} value={n}>
            {n}
          </option>
        ))}
      </select>
    </label>
  )
}

function Refresh() {
  const mode = useMode()
  return (
    <span class="row refresh">
      <label>
        <span class="sr">{say.refresh}</span>
        <select class="select" title={say.refreshTitle} value={mode} onChange={e => setMode(e.currentTarget.value as Cadence)}>
          {strings.settings.cadences.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <button class="btn quiet" aria-label={say.refreshNow} title={say.refreshNowTitle} onClick={refreshNow}>
        <Icon name="refresh" />
      </button>
    </span>
  )
}

function ZoneSwitch() {
  const z = useStore(zone)
  return (
    <button
      class="btn quiet top-zone"
      title={say.zoneTitle}
      aria-label={say.zone(z === 'utc' ? 'UTC' : say.local)}
      onClick={() => zone.set(z === 'utc' ? 'local' : 'utc')}
    >
      {z === 'utc' ? 'UTC' : words.local}
    </button>
  )
}

function ThemeSwitch() {
  const t = useStore(theme)
  const next = { system: 'light', light: 'dark', dark: 'system' } as const
  const icon = { system: 'auto', light: 'sun', dark: 'moon' } as const
  return (
    <button class="btn quiet" title={say.theme(t)} aria-label={say.themeSwitch(t, next[t])} onClick={() => theme.set(next[t])}>
      <Icon name={icon[t]} />
    </button>
  )
}

function Health() {
  const q = useRead('GET /api/v1/cluster/stats', {}, 2000)
  const without = unled(useShards().data?.data ?? []).length
  useStore(shortcuts)
  if (q.error && lost(q)) return <State state="unavailable" word={say.unreachable} />
  const s = q.data?.data
  if (!s) return null
  const bad = s.nodes.filter(n => n.status !== 'healthy')
  return (
    <a class="health" href={link('overview')} title={say.floe(s.version)}>
      {bad.length > 0 ? (
        <State state={bad[0]!.status} word={say.someNodes(bad.length, s.nodes.length, bad[0]!.status)} />
      ) : without > 0 ? (
        <State state="unavailable" word={say.someShards(without)} />
      ) : (
        <State state="healthy" />
      )}
      <span class="dim version">{s.version}</span>
    </a>
  )
}
