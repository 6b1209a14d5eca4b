import type { ComponentChildren } from 'preact'
import { useMissing } from '../api/namespaces'
import { strings } from '../strings'
import { Empty } from './Panel'

/** A namespace has nothing of a kind, or does not exist. */
export function NoneIn({ ns, title, children }: { ns: string; title: string; children?: ComponentChildren }) {
  return <Empty title={useMissing(ns) ? strings.noNamespace(ns) : title}>{children}</Empty>
}
