package console

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"
)

const problemType = "application/problem+json"

// problem is an error in the form of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// refuse answers a question with an error. After wait it may be asked again; 0: that would not help.
func refuse(w http.ResponseWriter, status int, detail string, wait time.Duration) {
	h := w.Header()
	h.Set("Content-Type", problemType)
	if wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
	w.WriteHeader(status)
	// A client that has gone away needs no answer.
	_ = json.NewEncoder(w).Encode(problem{"about:blank", http.StatusText(status), status, detail})
}
