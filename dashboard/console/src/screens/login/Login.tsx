import './Login.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, call } from '../../api/client'
import { client } from '../../api/hooks'
import { signIn, token } from '../../api/session'
import { replace, useRoute } from '../../lib/router'
import { useStore } from '../../lib/store'
import { strings } from '../../strings'

const say = strings.login

/** Where a visit begins that needs a key. */
export default function Login() {
  const next = useRoute().query['next'] ?? ''
  const signedIn = useStore(token) !== ''
  // Here, or in another tab.
  useEffect(() => {
    if (!signedIn) return
    client.clear()
    replace(next.startsWith('#/') && !next.startsWith('#/login') ? next : '#/')
  }, [signedIn])
  return (
    <main class="login">
      <KeyForm intro={say.intro} />
    </main>
  )
}

/** Exchanges an API key for the token of this session. */
export function KeyForm({ intro }: { intro: string }) {
  const [key, setKey] = useState('')
  const [pending, setPending] = useState(false)
  const [problem, setProblem] = useState('')
  const box = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const before = document.title
    document.title = say.titleOf
    box.current?.focus()
    return () => {
      document.title = before
    }
  }, [])
  const submit = async () => {
    if (pending || key === '') return
    setPending(true)
    setProblem('')
    try {
      const { data } = await call('POST /api/v1/auth/session', {}, { body: JSON.stringify({ api_key: key.trim() }) })
      signIn(data.token)
      setKey('')
    } catch (e) {
      const error = e as ApiError
      setProblem(error.status === 401 ? say.invalid : error.status === 429 ? say.tooMany : error.message)
      setPending(false)
      box.current?.select()
    }
  }
  return (
    <form
      class="panel"
      onSubmit={e => {
        e.preventDefault()
        void submit()
      }}
    >
      <h1 tabIndex={-1}>{say.title}</h1>
      <p class="dim">{intro}</p>
      <label class="field">
        <span class="label">{say.key}</span>
        <input
          ref={box}
          class="input mono"
          type="password"
          autocomplete="off"
          spellcheck={false}
          placeholder={say.keyHint}
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
        {pending ? say.pending : say.title}
      </button>
      <p class="dim">
        <code>{say.command}</code>
        {say.makes}
      </p>
    </form>
  )
}
