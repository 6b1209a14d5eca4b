package cli

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
)

func txnCommand(p Process) *cobra.Command {
	f := &frame{Process: p}
	cmd := &cobra.Command{
		Use:   "txn FILE",
		Short: "Commit a transaction over several primitives",
		Long: `Commit the transaction in FILE, or on stdin for -. It is a JSON object with the members if, a
list of conditions, and do, a list of operations, as in POST /api/v1/txn. If all conditions hold
and all operations succeed, all of them happen, or nothing does.

Conditions: kv.absent, kv.present, kv.revision_is, queue.held, stream.last_id_is, action.held.
Operations: kv.put|delete|incr|touch|patch, queue.enqueue|dequeue|ack|nack|extend|release,
stream.append|ack|nack|extend|seek|leave, ts.write, action.invoke|complete|fail|cancel,
workflow.start|signal|cancel|retry. floe openapi describes their members.
If a condition does not hold, the exit code is 4.`,
		Example: `  floe txn transfer.json
  echo '{"if": [{"op": "kv.absent", "key": "order:42"}],
         "do": [{"op": "kv.put", "key": "order:42", "value": "paid"},
                {"op": "queue.enqueue", "name": "mail", "payload": "order 42"}]}' | floe txn -`,
		Args: takes("FILE"),
	}
	binary := cmd.Flags().Bool("base64", false, "values, payloads and headers are base64, for bytes that are not text")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := f.document(cmd, "FILE", args[0])
		if err != nil {
			return err
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			response, err := dashboard.Transaction{Namespace: s.namespace, JSON: text, Base64: *binary}.Commit(ctx, s.Client)
			if refused := (*floe.TxnError)(nil); errors.As(err, &refused) {
				return &hintedError{err, "nothing was changed; parts are numbered from 0"}
			}
			if err != nil {
				return err
			}
			return s.printCommitted(response)
		})
	}
	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault) // files
	f.equip(cmd)
	return cmd
}

// printCommitted prints the response of the JSON API to a transaction.
func (s *session) printCommitted(response []byte) error {
	var committed struct{ Results []json.RawMessage }
	if err := json.Unmarshal(response, &committed); err != nil {
		return err
	}
	t := table{head: []string{"OPERATION", "RESULT"}}
	for i, result := range committed.Results {
		t.rows = append(t.rows, []string{decimal(i), string(result)})
	}
	return s.print(json.RawMessage(response), t)
}
