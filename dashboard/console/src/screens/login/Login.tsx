import './Login.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, call } from '../../api/client'
import { client } from '../../api/hooks'
import { signIn } from '../../api/session'
import { replace, useRoute } from '../../lib/router'

/** Exchanges an API key for the token of this session. */
export default function Login() {
  const next = useRoute().query['next'] ?? ''
  const [key, setKey] = useState('')
  const [pending, setPending] = useState(false)
  const [problem, setProblem] = useState('')
  const box = useRef<HTMLInputElement>(null)
  useEffect(() => {
    document.title = 'Sign in · floe'
    box.current?.focus()
  }, [])
  const submit = async () => {
    if (pending || key === '') return
    setPending(true)
    setProblem('')
    try {
      const { data } = await call('POST /api/v1/auth/session', {}, { body: JSON.stringify({ api_key: key.trim() }) })
      signIn(data.token)
      setKey('')
      client.clear()
      replace(next.startsWith('#/') && !next.startsWith('#/login') ? next : '#/default/overview')
    } catch (e) {
      const error = e as ApiError
      setProblem(
        error.status === 401
          ? 'This key is not valid, or was revoked.'
          : error.status === 429
            ? 'Too many failed attempts from here. Wait a minute.'
            : error.message,
      )
      setPending(false)
      box.current?.select()
    }
  }
  return (
    <main class="login">
      <form
        class="panel"
        onSubmit={e => {
          e.preventDefault()
          void submit()
        }}
      >
        <h1 tabIndex={-1}>Sign in</h1>
        <p class="dim">This node asks for an API key. It is exchanged for a session of this tab and not kept.</p>
        <label class="field">
          <span class="label">API key</span>
          <input
            ref={box}
            class="input mono"
            type="password"
            autocomplete="off"
            spellcheck={false}
            placeholder="floe_sk_…"
            value={key}
            onInput={e => setKey(e.currentTarget.value)}
          />
          {problem && (
            <span class="problem" role="alert">
              {problem}
            </span>
          )}
        </label>
        <button class="btn primary" disabled={pending || key === ''}>
          {pending ? 'Signing in…' : 'Sign in'}
        </button>
        <p class="dim">
          <code>floe key create --role read</code> makes a key.
        </p>
      </form>
    </main>
  )
}
