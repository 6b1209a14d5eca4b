// Package rawjson walks JSON as bytes. It also displays inputs and outputs, which are usually JSON
// but may have any format.
package rawjson
