// Command cell is everything that the distroless image of the journeys has: no shell, no files.
//
//	cell serve   answers on port 8080 who it is, whom it may talk to, and what lies in the workspace
//	cell work    does what a mission asks: it gives the objective back
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
)

const mark = "/workspace/shared/mark"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "work" {
		work()
		return
	}
	http.HandleFunc("/", who)
	http.HandleFunc("/leave", leave)
	http.HandleFunc("/found", found)
	log.Fatal(http.ListenAndServe(":8080", nil))
}

func work() {
	told := []byte("did: " + os.Getenv("KAIS_OBJECTIVE"))
	if err := os.WriteFile("/dev/termination-log", told, 0o644); err != nil {
		log.Fatal(err)
	}
}

// who tells the cell's name and its peers; without a peers file it has none.
func who(w http.ResponseWriter, _ *http.Request) {
	routes := map[string][]string{}
	if text, err := os.ReadFile(os.Getenv("KAIS_PEERS_FILE")); err == nil {
		_ = json.Unmarshal(text, &routes)
	}
	name := os.Getenv("CELL_NAME")
	_ = json.NewEncoder(w).Encode(map[string]any{"cell": name, "peers": routes[name]})
}

func leave(w http.ResponseWriter, _ *http.Request) {
	if err := os.WriteFile(mark, []byte(os.Getenv("CELL_NAME")), 0o666); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func found(w http.ResponseWriter, _ *http.Request) {
	text, err := os.ReadFile(mark)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	_, _ = w.Write(text)
}
