// What is large comes when it is first shown, in chunks of its own.
import { lazy, Suspense } from 'preact/compat'
import type { ComponentProps } from 'preact'
import type GraphType from './Graph'
import type EditorType from './Editor'
import type ChartType from './Chart'
import { Boundary } from './Panel'
import { Skeleton } from './Skeleton'

const LazyGraph = lazy(() => import('./Graph'))
const LazyChart = lazy(() => import('./Chart'))
const LazyEditor = lazy(() => import('./Editor'))

export const Graph = (p: ComponentProps<typeof GraphType>) => (
  <Boundary>
    <Suspense fallback={<Skeleton />}>
      <LazyGraph {...p} />
    </Suspense>
  </Boundary>
)
export const Editor = (p: ComponentProps<typeof EditorType>) => (
  <Boundary>
    <Suspense fallback={<Skeleton />}>
      <LazyEditor {...p} />
    </Suspense>
  </Boundary>
)

export const Chart = (p: ComponentProps<typeof ChartType>) => (
  <Boundary>
    <Suspense fallback={<Skeleton />}>
      <LazyChart {...p} />
    </Suspense>
  </Boundary>
)
