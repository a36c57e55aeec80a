package facts

// KeysOp is what a keys operation does.
type KeysOp string

// The keys operations (seed's reference §1.5).
const (
	KeysGet    KeysOp = "get"
	KeysSet    KeysOp = "set"
	KeysDelete KeysOp = "delete"
)

// KeysEdit is a batch of one operation: all or nothing, one after the other. Each item is
// a path, of keys and of indices of lists; that of set ends with the value.
type KeysEdit struct {
	Op    KeysOp
	Items [][]JSON
}
