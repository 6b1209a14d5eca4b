import { useRef, useState } from 'preact/hooks'

/**
 * Text that is typed here and goes to the address from time to time. When the address changes otherwise, the text follows. What was sent from here comes back
 * as an echo, which must not take the place of what was typed since: call sent with it before it goes.
 */
export function useDraft(kept: string): [text: string, type: (text: string) => void, sent: (text: string) => void] {
  const [text, type] = useState(kept)
  const known = useRef(kept)
  if (known.current !== kept) {
    known.current = kept
    type(kept)
  }
  return [text, type, sent => (known.current = sent)]
}
