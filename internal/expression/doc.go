// Package expression implements the language of expressions over records: amount > 100 && country
// in ["DE", "FR"]. It uses the syntax and the parser of expr-lang/expr, but defines the semantics
// itself. So an expression has a bounded cost and reads only the parts of a value that it names.
// Its result depends only on its record, and not on a clock, random numbers or the order of a map.
//
// A name is a member of the record's JSON value (amount, customer.id, items[0].sku; $.amount is the
// same). The names key, headers and event_time refer to the record itself; $.key is the member. A
// missing value is null. Integers are int64, and an overflow is an error; other numbers are
// float64. Strings are compared by their bytes, and null equals only null. An operator with
// operands of unsupported types is an error.
package expression
