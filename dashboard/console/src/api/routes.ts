// The routes of the API with the types of their answers, as the node's route table prints them, by the names that screens have for them.
export type {
  Caller as Me,
  GraphEdge,
  GraphNode,
  JobFailure,
  JobWork,
  ProblemList as Problems,
  QueueState,
  Routes,
  ShardState as Shard,
  StreamActivity as Activity,
} from './types.gen'
export type { RawJSON } from '../lib/json'
