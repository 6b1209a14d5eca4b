import { strings } from '../strings'

/** Where something is still loading: a region that screen readers announce, as only such may have a label. */
export const Skeleton = () => <div class="skeleton" role="status" aria-busy="true" aria-label={strings.loading} />
