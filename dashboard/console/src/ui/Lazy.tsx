// What is large comes when it is first shown, in chunks of its own.
import { lazy, Suspense } from 'preact/compat'
import type { ComponentProps } from 'preact'
import type GraphType from './Graph'
import type EditorType from './Editor'
import type ChartType from './Chart'
import { strings } from '../strings'
import { Boundary } from './Panel'

const LazyGraph = lazy(() => import('./Graph'))
const LazyChart = lazy(() => import('./Chart'))
const LazyEditor = lazy(() => import('./Editor'))

const waiting = <div class="skeleton" aria-busy="true" aria-label={strings.loading} />

export const Graph = (p: ComponentProps<typeof GraphType>) => (
  <Boundary>
    <Suspense fallback={waiting}>
      <LazyGraph {...p} />
    </Suspense>
  </Boundary>
)
export const Editor = (p: ComponentProps<typeof EditorType>) => (
  <Boundary>
    <Suspense fallback={waiting}>
      <LazyEditor {...p} />
    </Suspense>
  </Boundary>
)

export const Chart = (p: ComponentProps<typeof ChartType>) => (
  <Boundary>
    <Suspense fallback={waiting}>
      <LazyChart {...p} />
    </Suspense>
  </Boundary>
)
