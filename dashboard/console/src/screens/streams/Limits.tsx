import { durationText, parseCount, parseDuration, parseSize, sizeText } from '../../lib/quantities'
import { strings } from '../../strings'
import { streams as say } from '../../strings/streams'
import { Field } from '../../ui/Field'

export interface Limits {
  max_age_ms: number
  max_len: number
  max_bytes: number
}

export type LimitTexts = Record<keyof Limits, string>

export const textsOf = (l: Limits): LimitTexts => ({
  max_age_ms: durationText(l.max_age_ms),
  max_len: String(l.max_len),
  max_bytes: sizeText(l.max_bytes),
})

/** The limits that are typed; null if one of them is none. */
export function limitsOf(t: LimitTexts): Limits | null {
  const [max_age_ms, max_len, max_bytes] = [parseDuration(t.max_age_ms), parseCount(t.max_len), parseSize(t.max_bytes)]
  return max_age_ms === null || max_len === null || max_bytes === null ? null : { max_age_ms, max_len, max_bytes }
}

export const limitFlags = (l: Limits | null): Record<string, string | undefined> =>
  l ? { 'max-age': durationText(l.max_age_ms), 'max-len': String(l.max_len), 'max-bytes': sizeText(l.max_bytes) } : {}

/** The fields of a stream's retention. */
export function LimitFields({ texts, change }: { texts: LimitTexts; change: (t: LimitTexts) => void }) {
  const field = (name: keyof Limits, label: string, problem: string | undefined) => (
    <Field label={label} hint={say.noLimit} problem={problem}>
      <input class="input" size={10} value={texts[name]} spellcheck={false} onInput={e => change({ ...texts, [name]: e.currentTarget.value })} />
    </Field>
  )
  return (
    <div class="row gap-16 wrap">
      {field('max_age_ms', say.maxAge, parseDuration(texts.max_age_ms) === null ? strings.badDuration : undefined)}
      {field('max_len', say.maxLen, parseCount(texts.max_len) === null ? strings.badCount : undefined)}
      {field('max_bytes', say.maxBytes, parseSize(texts.max_bytes) === null ? strings.badSize : undefined)}
    </div>
  )
}
