import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { hold, resume } from '../../api/hooks'
import { token } from '../../api/session'
import { useStore } from '../../lib/store'
import { strings } from '../../strings'
import { KeyForm } from './Login'

/** Asks for a key on top of the open page. The page is hidden meanwhile, because another person may sign in, but keeps its state. */
export default function Again() {
  const ref = useRef<HTMLDialogElement>(null)
  const signedIn = useStore(token) !== ''
  // Before the form focuses its field.
  useLayoutEffect(() => {
    const before = document.activeElement
    const d = ref.current!
    d.showModal()
    const free = hold()
    return () => {
      free()
      d.close()
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  // Here, or in another tab.
  useEffect(() => {
    if (signedIn) resume()
  }, [signedIn])
  return (
    <dialog ref={ref} class="login-again" aria-label={strings.login.title} onCancel={e => e.preventDefault()}>
      <KeyForm intro={strings.login.again} />
    </dialog>
  )
}
