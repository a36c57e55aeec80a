package history

import (
	"fmt"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/kv"
)

// The keys and the folders of keys, as the package's table has them.
const (
	keyHead      = "head"
	keyFleet     = "fleet"
	keyRestoring = "restoring"

	folderRevisions   = "revisions/"
	folderObjects     = "objects/"
	folderSets        = "sets/"
	folderNodes       = "nodes/"
	folderNames       = "names/"
	folderTokens      = "tokens/"
	folderGenerations = "generations/"
	folderPushes      = "pushes/"
	folderOwners      = "owners/"
	folderOutboxes    = "mailboxes/"
	folderPreviews    = "previews/"
	folderProposed    = "proposed/"
	folderAccepted    = "accepted/"
	folderRollouts    = "rollouts/"
	folderElections   = "elections/"
	folderOperators   = "operators/"
	folderRevoked     = "revoked/"
	folderAdmissions  = "gates/"
	folderStandings   = "standings/"
	folderUnderlays   = "underlays/"
	folderFormats     = "formats/"
	folderDamaged     = "damaged/"
)

// The folders of keys whose values are others': who keeps up with them lists and watches
// these.
const (
	InNodes       = kv.Prefix(folderNodes)
	InTokens      = kv.Prefix(folderTokens)
	InGenerations = kv.Prefix(folderGenerations)
	InPushes      = kv.Prefix(folderPushes)
	InOwners      = kv.Prefix(folderOwners)
	InOutboxes    = kv.Prefix(folderOutboxes)
	InPreviews    = kv.Prefix(folderPreviews)
	InProposed    = kv.Prefix(folderProposed)
	InAccepted    = kv.Prefix(folderAccepted)
	InOperators   = kv.Prefix(folderOperators)
	InRevoked     = kv.Prefix(folderRevoked)
	InRollouts    = kv.Prefix(folderRollouts)
	InAdmissions  = kv.Prefix(folderAdmissions)
	InStandings   = kv.Prefix(folderStandings)
	InUnderlays   = kv.Prefix(folderUnderlays)
	InFormats     = kv.Prefix(folderFormats)
	InElections   = kv.Prefix(folderElections)
)

// Names are the texts of a key below its folder, "" for the key of no folder. A segment that
// Escape does not spell stands as it is.
func Names(k kv.Key) []string {
	segments := strings.Split(string(k), "/")[1:]
	for i, s := range segments {
		if text, err := Unescape(s); err == nil {
			segments[i] = text
		}
	}
	return segments
}

// HeadKey is the key that every write of a layer moves: watching it shows each revision.
func HeadKey() kv.Key { return keyHead }

// FleetKey is where that is which all controllers of a fleet must have alike.
func FleetKey() kv.Key { return keyFleet }

// FormatKey is where it stands which form the store's keys have, and which form a controller has
// to know at least.
func FormatKey() kv.Key { return folderFormats + "store" }

// MigratedKey is where it stands up to which versions the layers were migrated.
func MigratedKey() kv.Key { return folderFormats + "layers" }

// EdgeKey is where it stands at which revision a history begins that was pruned.
func EdgeKey() kv.Key { return folderFormats + "history" }

// RestoringKey is there while a restore is under way, or was interrupted. Nobody but a restore
// writes then.
func RestoringKey() kv.Key { return keyRestoring }

// RevisionKey is where the record of a revision is. The number has 16 hex digits, so that
// the order of the keys is that of the revisions.
func RevisionKey(number uint64) kv.Key {
	return kv.Key(folderRevisions + fmt.Sprintf("%016x", number))
}

// NodeKey is where a node that has joined is, by its id.
func NodeKey(id string) kv.Key { return key(folderNodes, id) }

// NameKey is where the id of the node of a name is.
func NameKey(name string) kv.Key { return key(folderNames, name) }

// TokenKey is where the open join token of a name is.
func TokenKey(name string) kv.Key { return key(folderTokens, name) }

// GenerationKey is where the generation of a node's wanted config is.
func GenerationKey(id string) kv.Key { return key(folderGenerations, id) }

// PushKey is where that is which has to survive of a node's pushes.
func PushKey(id string) kv.Key { return key(folderPushes, id) }

// DamagedKey is where that is kept of a node's pushes which could not be read when it joined again.
func DamagedKey(id string) kv.Key { return key(folderDamaged, id) }

// OwnerKey is where the replica and the stream are that own a node.
func OwnerKey(id string) kv.Key { return key(folderOwners, id) }

// OutboxKey is where a request to the owner of a node is.
func OutboxKey(id, request string) kv.Key { return key(folderOutboxes, id, request) }

// PreviewKey is where a node's answer to a preview is.
func PreviewKey(preview, id string) kv.Key { return key(folderPreviews, preview, id) }

// ProposedKey is where that is which a node proposed as the base config of its board.
func ProposedKey(id string) kv.Key { return key(folderProposed, id) }

// AcceptedKey is where the base config of a board is that an operator has accepted.
func AcceptedKey(board string) kv.Key { return key(folderAccepted, board) }

// RolloutKey is where the state of a rollout is.
func RolloutKey(id string) kv.Key { return key(folderRollouts, id) }

// AdmissionKey is where the config is that a staged rollout lets a node have.
func AdmissionKey(id string) kv.Key { return key(folderAdmissions, id) }

// StandingKey is where that is which a staged rollout goes by of a node: whether it has what it
// wants.
func StandingKey(id string) kv.Key { return key(folderStandings, id) }

// UnderlayKey is what a node said of its ports, if it is a peer that was described or a member
// of a deployed cluster: the tunnels of others lead there.
func UnderlayKey(id string) kv.Key { return key(folderUnderlays, id) }

// ElectionKey is where the winner of an election is.
func ElectionKey(name string) kv.Key { return key(folderElections, name) }

// OperatorKey is where an operator's token is, by its hash.
func OperatorKey(hash string) kv.Key { return key(folderOperators, hash) }

// RevokedKey is where it stands that a node's certificates are out of use.
func RevokedKey(id string) kv.Key { return key(folderRevoked, id) }

// PreviewsBelow is where the answers to one preview are.
func PreviewsBelow(preview string) kv.Prefix { return key(folderPreviews, preview).Below() }

func objectKey(hash string) kv.Key { return kv.Key(folderObjects + hash) }

func setKey(id string, part int) kv.Key {
	return kv.Key(fmt.Sprintf("%s%s/%08x", folderSets, id, part))
}

func key(folder string, names ...string) kv.Key {
	for i, name := range names {
		names[i] = Escape(name)
	}
	return kv.Key(folder + strings.Join(names, "/"))
}

const hexDigits = "0123456789ABCDEF"

// Escape makes any text one segment of a key: letters of ASCII, digits, '-', '_' and a '.'
// that is not the first stay, every other byte becomes %XX, and the empty text is "%".
// Equal segments are equal texts.
func Escape(text string) string {
	if text == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; plain(c, i) {
			b.WriteByte(c)
		} else {
			b.WriteString(string([]byte{'%', hexDigits[c>>4], hexDigits[c&15]}))
		}
	}
	return b.String()
}

func plain(c byte, at int) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' &&
		at > 0
}

// Unescape reads what Escape spells, and nothing else: a text has one segment only.
func Unescape(segment string) (string, error) {
	if segment == "%" {
		return "", nil
	}
	var b []byte
	for i := 0; i < len(segment); i++ {
		if segment[i] != '%' {
			b = append(b, segment[i])
			continue
		}
		if i+3 > len(segment) {
			return "", badSegment(segment)
		}
		c, err := strconv.ParseUint(segment[i+1:i+3], 16, 8)
		if err != nil {
			return "", badSegment(segment)
		}
		b = append(b, byte(c))
		i += 2
	}
	if text := string(b); Escape(text) == segment {
		return text, nil
	}
	return "", badSegment(segment)
}

func badSegment(segment string) error {
	return fmt.Errorf("segment of a key: invalid value %s: must be spelled by Escape", config.Quote(segment))
}
