"""Texts of our own: golden vectors and a first look at agreement where the user gives no data. They teach nothing."""

__all__ = ["SAMPLES"]

SAMPLES = (
    "",
    "Yes.",
    "Where is my parcel?",
    "The card has not arrived yet.",
    "Please cancel the order from Tuesday.",
    "Why was I charged twice for one ticket?",
    "I can't log in: the app says my code is wrong.",
    "Could you change the address to 12 Mill Lane, please?",
    "The screen stays black after the update, even when I hold both buttons.",
    "Great service, thank you! Everything arrived a day early & well packed.",
    "My refund of 49.90 € was promised for last week and is still not there.",
    "How do I move my photos to a new phone without losing the albums?",
    "the train was late again and nobody told us anything about it",
    "Is it safe to leave the charger plugged in over night?",
    "Naïve question: does the café on the corner take foreign cards?",
    "The parcel was left in the rain; the box is soaked and the lamp inside does not work.",
    "We would like to book a table for seven people on the 3rd of May, outside if the weather allows it.",
    "I ordered two blue shirts in size M and got one blue and one green shirt in size L.",
    "Your colleague said on the phone that the technician would come between eight and ten, but it is past noon now.",
    "Please tell me what I have to do to close my account, which data you keep afterwards, and for how long you keep it.",
    "The battery lasts less than two hours since the last update; before that it lasted a whole day. Resetting the phone did not "
    "help, and neither did removing every app that I had installed since then.",
    "I have been a customer for eleven years and never had a reason to complain, but this time three promises were broken in one "
    "week: the delivery came late, the bill was wrong, and the person who was to call me back never did.",
    "We walked along the river until the path ended at an old mill, where a man who was mending a fence told us that the bridge "
    "further up had been closed since the flood in spring, so we turned back, took the road over the hill, and came down to the "
    "village just before the last bus left from the square in front of the church.",
    "To set up the device, first charge it fully, then hold the round button for five seconds until the light turns green. Open "
    "the app, choose a new device, and allow it to use the radio of your phone. When the name appears in the list, touch it and "
    "wait until both lights are steady. If the name does not appear, move closer, switch the radio off and on, and try again. "
    "Should that fail too, write to us with the number printed on the back, the version of the app, and a short description of "
    "what you see on the screen; we usually answer within one working day, on weekends it may take a little longer than that.",
)
